// Modules that a Worker need not bring along: those of Node.js, for Workers with the compatibility flag `nodejs_compat`, and
// `cloudflare:workers`.
//
// Of their files, `node-*.js` and `workers.js`, which `order.txt` calls modules, the snapshot has nothing: they are compiled
// and run in the isolate of a Worker that has use for them. What the language and the platform offered before the Worker could
// change it is kept for them, as for late files (see later.js).
//
//   hooks.builtin(name)   [name, value, …] of what a module exports
//
// They are given the object `internal` with, in addition,
//
//   internal.platform     of the global object's properties those that they want as they were
//   internal.define(name, make), internal.use(name)
//                         what `make()` gives, made when it is first wanted: a module as `require` gives it, whose
//                         enumerable properties are what can be imported of it, or what only these files know
//   internal.node         what `node-shared.js` has for all of them
//
// A Worker that changes what the language offers may change what these modules do, as in Node.js. What it could use to
// reach beyond itself is kept from it as anywhere else (see bootstrap.js): `ops`, and whose the running code is.
(function (internal) {
  "use strict";

  const {
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeSlice, StringPrototypeStartsWith,
  } = internal.primordials;
  const { hooks, ops } = internal;

  const {
    URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  } = globalThis;
  const platform = {
    __proto__: null,
    URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  };

  // Where it is not in the file of its name.
  const FILES = {
    __proto__: null,
    asyncContext: "node-async_hooks.js", bufferNumbers: "node-buffer-numbers.js", bufferText: "node-buffer-text.js",
    duplex: "node-stream-duplex.js", equality: "node-equal.js", eventStatics: "node-events-static.js",
    finished: "node-stream-pipeline.js", legacyStream: "node-stream.js", perf_hooks: "node-os.js",
    pipeline: "node-stream-pipeline.js", readable: "node-stream-readable.js", readableRest: "node-stream-readable-rest.js",
    readableState: "node-stream-readable-state.js", streamConsumers: "node-stream-iterate.js",
    streamFrom: "node-stream-iterate.js", streamOperators: "node-stream-iterate.js",
    streamPromises: "node-stream-pipeline.js", streamShared: "node-stream-state.js", streamWeb: "node-stream-web.js",
    streamWebModule: "node-stream-web.js", timers: "node-process.js", tty: "node-os.js", utilTypes: "node-util-types.js",
    workers: "workers.js", writable: "node-stream-writable.js", writableProperties: "node-stream-duplex.js",
  };
  // What a module is: what is defined under this name, or a property of that.
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

  // As they were when they were first asked for: a module's exports must not change before it is evaluated.
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
