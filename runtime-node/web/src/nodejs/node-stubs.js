// Modules of Node.js that have little use in a Worker. They can be imported, because many packages
// import them without needing them. Functions that cannot work throw an error with the reason.
//: module
(function (internal) {
  "use strict";

  const { Function, Map, ObjectAssign, ObjectDefineProperty, ReflectApply, Symbol, SymbolFor } = internal.primordials;

  // Returns functions, and classes, that throw when they are used.
  function refusing(module, why, functions, classes = []) {
    const { refused } = internal.node;
    const exported = {};
    for (const name of functions) {
      exported[name] = () => {
        throw refused(`${module}.${name}`, why);
      };
    }
    for (const name of classes) {
      // A function and not a class, because packages inherit from it both with classes and with
      // constructor functions.
      const refuse = function () {
        throw refused(`${module}.${name}`, why);
      };
      ObjectDefineProperty(refuse, "name", { __proto__: null, value: name, configurable: true });
      exported[name] = refuse;
    }
    return exported;
  }

  const noProcesses = "there are no other processes";
  const oneThread = "a Worker has one thread";
  const noDatagrams = "there are no datagram sockets";

  internal.define("child_process", () => refusing("child_process", noProcesses,
    ["exec", "execFile", "execFileSync", "execSync", "fork", "spawn", "spawnSync"], ["ChildProcess"]));

  internal.define("cluster", () => {
    const cluster = new (internal.use("events"))();
    return ObjectAssign(cluster, refusing("cluster", noProcesses, ["fork"], ["Worker"]), {
      SCHED_NONE: 1, SCHED_RR: 2, disconnect() {}, isMaster: true, isPrimary: true, isWorker: false, schedulingPolicy: 2, settings: {},
      setupMaster() {}, setupPrimary() {}, workers: {},
    });
  });

  internal.define("worker_threads", () => {
    const { lazy } = internal.hooks;
    const environment = new Map();
    return {
      ...refusing("worker_threads", oneThread, ["moveMessagePortToContext", "postMessageToThread"], ["Worker"]),
      MessageChannel: lazy("MessageChannel"),
      MessagePort: lazy("MessagePort"),
      SHARE_ENV: SymbolFor("nodejs.worker_threads.SHARE_ENV"),
      getEnvironmentData: (key) => environment.get(key),
      isInternalThread: false,
      isMainThread: true,
      isMarkedAsUntransferable: () => false,
      markAsUncloneable() {},
      markAsUntransferable() {},
      parentPort: null,
      receiveMessageOnPort: () => undefined,
      resourceLimits: {},
      setEnvironmentData(key, value) {
        if (value === undefined) environment.delete(key);
        else environment.set(key, value);
      },
      threadId: 0,
      threadName: "",
      workerData: null,
    };
  });

  internal.define("dgram", () => refusing("dgram", noDatagrams, ["createSocket"], ["Socket"]));

  internal.define("http2", () => ({
    ...refusing("http2", "requests are sent with fetch, and received by the router",
      ["connect", "createSecureServer", "createServer", "getPackedSettings", "getUnpackedSettings", "performServerHandshake"],
      ["Http2ServerRequest", "Http2ServerResponse"]),
    // The names of pseudo-header fields and of common fields, statuses and error codes.
    constants: {
      HTTP2_HEADER_AUTHORITY: ":authority", HTTP2_HEADER_METHOD: ":method", HTTP2_HEADER_PATH: ":path",
      HTTP2_HEADER_PROTOCOL: ":protocol", HTTP2_HEADER_SCHEME: ":scheme", HTTP2_HEADER_STATUS: ":status",
      HTTP2_HEADER_ACCEPT: "accept", HTTP2_HEADER_ACCEPT_ENCODING: "accept-encoding", HTTP2_HEADER_AUTHORIZATION: "authorization",
      HTTP2_HEADER_CONNECTION: "connection", HTTP2_HEADER_CONTENT_ENCODING: "content-encoding",
      HTTP2_HEADER_CONTENT_LENGTH: "content-length", HTTP2_HEADER_CONTENT_TYPE: "content-type", HTTP2_HEADER_COOKIE: "cookie",
      HTTP2_HEADER_HOST: "host", HTTP2_HEADER_LOCATION: "location", HTTP2_HEADER_SET_COOKIE: "set-cookie",
      HTTP2_HEADER_TRANSFER_ENCODING: "transfer-encoding", HTTP2_HEADER_UPGRADE: "upgrade", HTTP2_HEADER_USER_AGENT: "user-agent",
      HTTP2_METHOD_DELETE: "DELETE", HTTP2_METHOD_GET: "GET", HTTP2_METHOD_HEAD: "HEAD", HTTP2_METHOD_OPTIONS: "OPTIONS",
      HTTP2_METHOD_PATCH: "PATCH", HTTP2_METHOD_POST: "POST", HTTP2_METHOD_PUT: "PUT", HTTP_STATUS_OK: 200,
      HTTP_STATUS_NOT_FOUND: 404, HTTP_STATUS_INTERNAL_SERVER_ERROR: 500, NGHTTP2_NO_ERROR: 0, NGHTTP2_PROTOCOL_ERROR: 1,
      NGHTTP2_INTERNAL_ERROR: 2, NGHTTP2_REFUSED_STREAM: 7, NGHTTP2_CANCEL: 8,
    },
    getDefaultSettings: () => ({}),
    sensitiveHeaders: Symbol("sensitiveHeaders"),
  }));

  internal.define("inspector", () => ({
    ...refusing("inspector", "the platform attaches debuggers", ["open", "waitForDebugger"], ["Session"]),
    Network: {},
    close() {},
    console: internal.console,
    url: () => undefined,
  }));

  internal.define("repl", () => ({
    ...refusing("repl", "there is no terminal", ["start"], ["REPLServer", "Recoverable"]),
    REPL_MODE_SLOPPY: Symbol("repl-sloppy"),
    REPL_MODE_STRICT: Symbol("repl-strict"),
    builtinModules: internal.use("module").builtinModules,
  }));

  internal.define("trace_events", () => ({
    createTracing: (options) => ({ categories: `${options?.categories ?? ""}`, disable() {}, enable() {}, enabled: false }),
    getEnabledCategories: () => undefined,
  }));

  internal.define("wasi", () => refusing("wasi", "there are no processes; instantiate modules with WebAssembly", [], ["WASI"]));

  // Tests run before a Worker is deployed, and not within it.
  internal.define("test", () => {
    const test = refusing("test", "run tests with Node.js", ["test"]).test;
    const names = ["after", "afterEach", "before", "beforeEach", "describe", "it", "run", "suite"];
    return ObjectAssign(test, refusing("test", "run tests with Node.js", names), { mock: {}, snapshot: {}, test });
  });

  // A Worker learns nothing about its heap.
  internal.define("v8", () => ({
    ...refusing("v8", "the platform manages the heap",
      ["deserialize", "getHeapSnapshot", "queryObjects", "serialize", "writeHeapSnapshot"],
      ["DefaultDeserializer", "DefaultSerializer", "Deserializer", "GCProfiler", "Serializer"]),
    cachedDataVersionTag: () => 0,
    getHeapCodeStatistics: () => ({ code_and_metadata_size: 0, bytecode_and_metadata_size: 0, external_script_source_size: 0 }),
    getHeapSpaceStatistics: () => [],
    getHeapStatistics: () => ({
      total_heap_size: 0, total_heap_size_executable: 0, total_physical_size: 0, total_available_size: 0, used_heap_size: 0,
      heap_size_limit: 0, malloced_memory: 0, peak_malloced_memory: 0, does_zap_garbage: 0, number_of_native_contexts: 1,
      number_of_detached_contexts: 0, total_global_handles_size: 0, used_global_handles_size: 0, external_memory: 0,
    }),
    setFlagsFromString() {},
    setHeapSnapshotNearHeapLimit() {},
    startupSnapshot: { addDeserializeCallback() {}, addSerializeCallback() {}, isBuildingSnapshot: () => false },
    stopCoverage() {},
    takeCoverage() {},
  }));

  // Code can run only in the Worker's own realm, where it is compiled as `eval` compiles it.
  internal.define("vm", () => {
    const { needString } = internal.node;
    const contexts = refusing("vm", "a Worker has one realm", ["createContext", "measureMemory", "runInContext", "runInNewContext"],
      ["Module", "SourceTextModule", "SyntheticModule"]);
    const runInThisContext = (code) => (0, globalThis.eval)(needString(code, "code"));
    class Script {
      #code;
      constructor(code) {
        this.#code = `${code}`;
      }
      createCachedData() {
        return internal.use("buffer").Buffer.alloc(0);
      }
      runInContext() {
        return contexts.runInContext();
      }
      runInNewContext() {
        return contexts.runInNewContext();
      }
      runInThisContext() {
        return runInThisContext(this.#code);
      }
    }
    return {
      ...contexts, Script, runInThisContext,
      compileFunction: (code, parameters = []) => new Function(...parameters, needString(code, "code")),
      constants: { __proto__: null, DONT_CONTEXTIFY: Symbol("vm_dont_contextify"), USE_MAIN_CONTEXT_DEFAULT_LOADER: Symbol("vm_main_loader") },
      isContext: () => false,
    };
  });

  // A domain is an emitter. It emits the exceptions of the functions that it runs.
  internal.define("domain", () => {
    const EventEmitter = /** @type {any} */ (internal.use("events"));
    class Domain extends EventEmitter {
      members = [];
      add(emitter) {
        this.members.push(emitter);
      }
      remove(emitter) {
        this.members = this.members.filter((member) => member !== emitter);
      }
      run(callback, ...args) {
        try {
          return ReflectApply(callback, this, args);
        } catch (error) {
          this.emit("error", error);
          return undefined;
        }
      }
      bind(callback) {
        return (...args) => this.run(callback, ...args);
      }
      intercept(callback) {
        return (error, ...args) => (error ? this.emit("error", error) : this.run(callback, ...args));
      }
      enter() {}
      exit() {}
    }
    const create = () => new Domain();
    return { Domain, active: null, create, createDomain: create };
  });

  internal.define("constants", () => ({ ...internal.use("os").constants, ...internal.use("fsConstants") }));
})
