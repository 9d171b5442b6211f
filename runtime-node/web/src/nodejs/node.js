// Built-in modules: those of Node.js, for Workers with the compatibility flag `nodejs_compat`, and
// `cloudflare:node`, `cloudflare:sockets` and `cloudflare:workers`.
//
// The snapshot contains none of their files, `node-*.js`, `sockets.js` and `workers.js`, which
// mark themselves as modules: an isolate compiles and runs a file when its Worker first needs it.
// The primordials and the platform's functions that the files use are captured before a Worker can
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
//   internal.find(name)   returns a module, as `require` does, or undefined
//   internal.node         the shared code of `node-shared.js`
//
// `node-index.js` lists the modules, and the values that a file defines under other names.
//
// A Worker that changes the language's built-in objects may change the behavior of these modules,
// as in Node.js. The Worker still cannot reach `ops` or the identity of the running code (see
// bootstrap.js).
//: after base64.js navigator.js response.js url.js
(function (internal) {
  "use strict";

  const {
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeSlice, StringPrototypeStartsWith,
  } = internal.primordials;
  const { hooks, ops } = internal;

  const {
    Headers, Response, URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  } = /** @type {any} */ (globalThis);
  const platform = {
    __proto__: null,
    Headers, Response, URL, URLSearchParams, atob, btoa, clearInterval, clearTimeout, queueMicrotask, setInterval, setTimeout,
  };

  const { define, use } = internal.registry((name) => {
    const file = name === "index" ? undefined : use("index").files[name];
    ops.lateScript(file ?? `node-${name}.js`)(scope);
  });
  const find = (specifier) => {
    const SCHEME = "node:";
    const name = StringPrototypeStartsWith(specifier, SCHEME) ? StringPrototypeSlice(specifier, SCHEME.length) : specifier;
    const module = use("index").modules[name];
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
      case "setInterval": return use("timers").setInterval;
      case "setTimeout": return use("timers").setTimeout;
    }
    return lazy(name);
  };

  // The exports are cached on first use, because the names with which a module is created must be
  // those that its evaluation sets.
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
