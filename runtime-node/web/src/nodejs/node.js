// Built-in modules: those of Node.js, for Workers with the compatibility flag `nodejs_compat`, and
// `cloudflare:workers`.
//
// The snapshot contains nothing of their files, `node-*.js` and `workers.js`, which mark themselves
// as modules: an isolate compiles and runs a file when its Worker first needs it. The
// primordials and the platform's functions that the files use are captured before a Worker can
// change them, as for late files (see later.js).
//
//   hooks.builtin(name)   returns the exports of a module as [name, value, …]
//
// The files receive an object that inherits from `internal` and adds:
//
//   internal.platform     original values of the global object's properties that the files use
//   internal.define(name, make), internal.use(name)
//                         define and return a value that `make()` makes on first use: either a
//                         module in the form in which `require` returns it, whose enumerable
//                         properties are its exports, or a value that only these files use
//   internal.node         the shared code of `node-shared.js`
//
// A Worker that changes the language's built-in objects may change the behavior of these modules,
// as in Node.js. The Worker still cannot reach `ops` or the identity of the running code (see
// bootstrap.js).
//: after base64.js navigator.js url.js
(function (internal) {
  "use strict";

  const {
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeSlice, StringPrototypeStartsWith,
  } = internal.primordials;
  const { hooks, ops } = internal;

  const {
    URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  } = /** @type {any} */ (globalThis);
  const platform = {
    __proto__: null,
    URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  };

  // For each value that is not defined in `node-<name>.js`, the file that defines it.
  const FILES = {
    __proto__: null,
    asyncContext: "node-async_hooks.js", bufferNumbers: "node-buffer-numbers.js", bufferText: "node-buffer-text.js",
    cryptoAgreement: "node-crypto-ecdh.js", cryptoCiphers: "node-crypto-cipher.js", cryptoData: "node-crypto-data.js",
    cryptoDerivation: "node-crypto-derive.js", cryptoGeneration: "node-crypto-generate.js", cryptoHashes: "node-crypto-hash.js",
    cryptoKeyObjects: "node-crypto-keys.js", cryptoPem: "node-crypto-pem.js", cryptoRandom: "node-crypto-random.js",
    cryptoRsa: "node-crypto-rsa.js", cryptoSignatures: "node-crypto-sign.js",
    duplex: "node-stream-duplex.js", equality: "node-equal.js", eventStatics: "node-events-static.js",
    finished: "node-stream-pipeline.js", legacyStream: "node-stream.js", perf_hooks: "node-os.js",
    pipeline: "node-stream-pipeline.js", readable: "node-stream-readable.js", readableRest: "node-stream-readable-rest.js",
    readableState: "node-stream-readable-state.js", streamConsumers: "node-stream-iterate.js",
    streamFrom: "node-stream-iterate.js", streamOperators: "node-stream-iterate.js",
    streamPromises: "node-stream-pipeline.js", streamShared: "node-stream-state.js", streamWeb: "node-stream-web.js",
    streamWebModule: "node-stream-web.js", timers: "node-process.js", tty: "node-os.js", utilTypes: "node-util-types.js",
    workers: "workers.js", writable: "node-stream-writable.js", writableProperties: "node-stream-duplex.js",
  };
  // The value of each module: a defined name, or a property of a defined name.
  const MODULES = {
    __proto__: null,
    "cloudflare:workers": "workers",
    assert: "assert", "assert/strict": ["assert", "strict"], async_hooks: "async_hooks", buffer: "buffer", console: "console",
    crypto: "crypto", diagnostics_channel: "diagnostics_channel", events: "events", os: "os", path: "path", "path/posix": "path",
    perf_hooks: "perf_hooks", process: "process", querystring: "querystring", stream: "stream",
    "stream/consumers": "streamConsumers", "stream/promises": "streamPromises", "stream/web": "streamWebModule",
    string_decoder: "string_decoder", timers: "timers",
    "timers/promises": ["timers", "promises"], tty: "tty", url: "url", util: "util", "util/types": "utilTypes",
    zlib: "zlib",
  };

  const { define, use } = internal.registry((name) => ops.lateScript(FILES[name] ?? `node-${name}.js`)(scope));
  const find = (specifier) => {
    const SCHEME = "node:";
    const name = StringPrototypeStartsWith(specifier, SCHEME) ? StringPrototypeSlice(specifier, SCHEME.length) : specifier;
    const module = MODULES[name];
    return typeof module === "object" ? use(module[0])[module[1]] : module && use(module);
  };
  const scope = {
    __proto__: internal,
    define, find, platform, use,
    get node() {
      return use("shared");
    },
  };

  const { lazy } = hooks;
  hooks.lazy = (name) => {
    switch (name) {
      case "Buffer": return use("buffer").Buffer;
      case "clearImmediate": return use("timers").clearImmediate;
      case "global": return globalThis;
      case "process": return use("process");
      case "setImmediate": return use("timers").setImmediate;
    }
    return lazy(name);
  };

  // The exports are cached on first use, because a module's exports must not change before its
  // evaluation.
  const exported = { __proto__: null };
  hooks.builtin = (specifier) => {
    if (exported[specifier] !== undefined) return exported[specifier];
    const module = find(specifier);
    if (module === undefined) return undefined;
    const flat = ["default", module];
    const keys = ReflectOwnKeys(module);
    for (let i = 0; i < keys.length; i++) {
      if (typeof keys[i] !== "string" || keys[i] === "default") continue;
      if (!ReflectGetOwnPropertyDescriptor(module, keys[i]).enumerable) continue;
      flat[flat.length] = keys[i];
      flat[flat.length] = module[keys[i]];
    }
    exported[specifier] = flat;
    return flat;
  };
})
