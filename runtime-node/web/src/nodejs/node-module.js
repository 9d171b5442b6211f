// node:module: names of the built-in modules, and `require` for them.
//: module
(function (internal) {
  "use strict";

  const { Error, ObjectAssign, ObjectKeys } = internal.primordials;

  internal.define("module", () => {
    const { badValue, coded, needString, refused } = internal.node;

    // The names of modules that exist only with the prefix `node:`.
    const PREFIXED = ["test"];
    const builtinModules = ObjectKeys(internal.use("index").modules)
      .filter((name) => !name.startsWith("cloudflare:") && !PREFIXED.includes(name)).sort();
    const isBuiltin = (name) => {
      const text = `${name}`;
      if (!text.startsWith("node:")) return builtinModules.includes(text);
      return builtinModules.includes(text.slice(5)) || PREFIXED.includes(text.slice(5));
    };

    const missing = (name) => coded(Error, "MODULE_NOT_FOUND",
      `Cannot find module '${name}'; in a Worker, require() finds only modules of Node.js: import other modules, or bundle them`);

    function createRequire(path) {
      const text = internal.isURL(path) ? path.href : needString(path, "filename");
      if (text === "") throw badValue("filename", path, "must be a file URL object, file URL string, or absolute path string");
      const resolve = (name) => {
        if (isBuiltin(needString(name, "id"))) return name;
        throw missing(name);
      };
      const require = (name) => internal.find(resolve(name));
      return ObjectAssign(require, {
        cache: { __proto__: null },
        extensions: { __proto__: null },
        main: undefined,
        resolve: ObjectAssign(resolve, { paths: () => null }),
      });
    }

    /** @returns {void} */
    function Module(id = "", parent = undefined) {
      ObjectAssign(this, { id, path: "/", exports: {}, filename: null, loaded: false, children: [], paths: [], parent });
    }
    class SourceMap {
      constructor() {
        throw refused("module.SourceMap", "source maps are applied to stacks by the runtime");
      }
    }
    return ObjectAssign(Module, {
      Module, SourceMap, builtinModules, createRequire, isBuiltin,
      _cache: { __proto__: null },
      _extensions: { __proto__: null, ".js"() {}, ".json"() {}, ".node"() {} },
      _load: (name) => createRequire("/")(name),
      _nodeModulePaths: () => [],
      _pathCache: { __proto__: null },
      _resolveFilename: (name) => createRequire("/").resolve(name),
      constants: { compileCacheStatus: { __proto__: null, FAILED: 0, ENABLED: 1, ALREADY_ENABLED: 2, DISABLED: 3 } },
      enableCompileCache: () => ({ status: 3 }),
      findSourceMap: () => undefined,
      flushCompileCache() {},
      getCompileCacheDir: () => undefined,
      globalPaths: [],
      register() {
        throw refused("module.register", "modules are loaded before a Worker's code runs");
      },
      syncBuiltinESMExports() {},
      wrap: (code) => `(function (exports, require, module, __filename, __dirname) { ${code}\n});`,
    });
  });
})
