// WebAssembly (the JavaScript Interface and the Web API of its specification), on top of V8's
// implementation.
//
// V8's own namespace is `internal.WebAssembly`, where native code stores it before a Worker's code
// runs. The functions that compile are replaced: native code validates every module in steps before
// V8 receives it (`wasm.rs`), and charges for the memory that V8 then keeps outside its heap while
// the module exists. Features that would escape that charge are not supported: shared memory,
// resizable buffers (see arraybuffer.js), and functions that suspend for promises, whose stacks are
// not counted.
//
//   hooks.wasm(number, module, kept)
//       validates and compiles the bytes that native code has opened under a number, or registers
//       the module that native code has created from another isolate's compiled code; returns the
//       module
//: after response.js
(function (internal) {
  "use strict";

  const {
    ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectSetPrototypeOf, RangeError, ReflectConstruct,
    ReflectDeleteProperty, ReflectOwnKeys, RegExpPrototypeExec, SymbolToStringTag, TypeError, Uint8Array,
    WeakMap, WeakMapPrototypeHas, WeakMapPrototypeSet, uncurryThis,
  } = internal.primordials;
  const { bufferSource, enforced, isObject, needs } = internal.webidl;
  const { headers: { listOf, lookup }, body: { mixins, readBytes }, hooks, ops } = internal;

  // The getters of Response, which are read before a Worker can replace them.
  const response = {};
  for (const { constructor: { name, prototype }, bodyOf } of mixins) {
    if (name !== "Response") continue;
    const getter = (key) => uncurryThis(ObjectGetOwnPropertyDescriptor(prototype, key).get);
    response.bodyOf = bodyOf;
    response.headersOf = getter("headers");
    response.isOk = getter("ok");
  }
  const { bodyOf, headersOf, isOk } = response;

  // Matches the type without parameters, surrounded by HTTP whitespace.
  const WASM = /^[\t ]*application\/wasm[\t ]*$/i;

  // The size of a page of memory, in bytes.
  const PAGE = 65_536;

  let imported = null;

  function make() {
    const native = internal.WebAssembly;
    const {
      CompileError, Exception, Global, Instance, JSTag, LinkError, Memory: NativeMemory, Module: NativeModule, RuntimeError,
      Table, Tag,
    } = native;

    // Maps every module to the object that charges its memory.
    const modules = new WeakMap();
    const isModule = (value) => isObject(value) && WeakMapPrototypeHas(modules, value);

    function take(number, what) {
      if (typeof number === "string") throw new CompileError(`${what}: ${number}`);
      return number;
    }

    // Returns the bytes of a BufferSource, which are empty if its buffer is detached.
    function bytesIn(source, what) {
      let view;
      try {
        view = bufferSource(source);
      } catch {
        return new Uint8Array();
      }
      if (view === null) throw new TypeError(`${what}: the argument must be an ArrayBuffer or a view of one`);
      return view;
    }

    // Copies the bytes to native code. Returns the number that stands for them there.
    const open = (source, what) => take(ops.wasmOpen(bytesIn(source, what)), what);

    // Validates a module in steps. Returns true, or the reason if the module is refused.
    function validateInSteps(number) {
      let verdict;
      do verdict = ops.wasmStep(number);
      while (verdict === undefined);
      return verdict;
    }

    function finish(number, options, newTarget, what) {
      try {
        take(validateInSteps(number), what);
        take(ops.wasmAdmit(number), what);
        const { prototype } = newTarget;
        // Options request functions that V8 provides, and only V8's constructor accepts options.
        const module = options === undefined ? ops.wasmCompile(number)
          : new NativeModule(ops.wasmBytes(number), options);
        if (isObject(prototype) && prototype !== NativeModule.prototype) ObjectSetPrototypeOf(module, prototype);
        WeakMapPrototypeSet(modules, module, ops.wasmKeep(number));
        return module;
      } finally {
        ops.wasmClose(number);
      }
    }

    imported = (number, module, kept) => {
      if (module === undefined) return finish(number, undefined, NativeModule, "WebAssembly.Module()");
      WeakMapPrototypeSet(modules, module, kept);
      return module;
    };

    // ---- Classes

    function Module(bytes) {
      const what = "WebAssembly.Module()";
      if (new.target === undefined) throw new TypeError("WebAssembly.Module must be invoked with 'new'");
      needs(arguments.length, 1, what);
      return finish(open(bytes, what), arguments[1], new.target, what);
    }

    // The largest number of pages of a descriptor (`unsigned long` of Web IDL).
    const MAX_PAGES = 2 ** 32 - 1;
    function Memory(descriptor) {
      const what = "WebAssembly.Memory()";
      if (new.target === undefined) throw new TypeError("WebAssembly.Memory must be invoked with 'new'");
      if (!isObject(descriptor)) throw new TypeError(`${what}: the argument must be a memory descriptor`);
      // Each member is read once, in the order of Web IDL. V8 performs all other checks.
      const { address } = descriptor;
      const number = (value, name) =>
        value === undefined || address === "i64" ? value : enforced(value, MAX_PAGES, `${what}: ${name}`);
      const copy = { __proto__: null, address, initial: number(descriptor.initial, "initial") };
      copy.maximum = number(descriptor.maximum, "maximum");
      if (descriptor.shared) {
        throw new TypeError(`${what}: memory that is shared between threads is not supported; leave out 'shared'`);
      }
      // V8 terminates the Worker if it cannot allocate the memory. A size that exceeds the Worker's
      // limit throws instead.
      const { initial } = copy;
      if (typeof initial === "number" && !ops.wasmFits(initial * PAGE)) {
        throw new RangeError(`${what}: ${initial} pages do not fit into the Worker's memory`);
      }
      return ReflectConstruct(NativeMemory, [copy], new.target);
    }

    // Replaces V8's constructor, and keeps its prototype and static methods.
    function replace(constructor, original, statics) {
      const { prototype } = original;
      ObjectDefineProperty(constructor, "prototype", { __proto__: null, value: prototype, writable: false });
      ObjectDefineProperty(prototype, "constructor", { __proto__: null, value: constructor });
      for (let i = 0; i < statics.length; i++) {
        ObjectDefineProperty(constructor, statics[i], ObjectGetOwnPropertyDescriptor(original, statics[i]));
      }
    }
    replace(Module, NativeModule, ["imports", "exports", "customSections"]);
    replace(Memory, NativeMemory, []);
    ReflectDeleteProperty(NativeMemory.prototype, "toFixedLengthBuffer");
    ReflectDeleteProperty(NativeMemory.prototype, "toResizableBuffer");

    // ---- Functions. Unless it awaits a response, a function that returns a promise compiles
    // before it returns, in the caller's turn, to which the work is charged.

    const instantiated = (module, imports) => ReflectConstruct(Instance, imports === undefined ? [module] : [module, imports]);

    // Awaits a response and returns its bytes.
    async function bytesOf(source, what) {
      const given = await source;
      if (!internal.isResponse(given)) throw new TypeError(`${what}: the argument must be a Response or a promise of one`);
      const type = lookup(listOf(headersOf(given)), "content-type");
      if (type === null || RegExpPrototypeExec(WASM, type) === null) {
        throw new TypeError(`${what}: the response's Content-Type is '${type ?? ""}'; expected application/wasm`);
      }
      if (!isOk(given)) throw new TypeError(`${what}: the response's status is not ok`);
      return await readBytes(bodyOf(given));
    }

    const functions = {
      async compile(source) {
        const what = "WebAssembly.compile()";
        needs(arguments.length, 1, what);
        return finish(open(source, what), arguments[1], NativeModule, what);
      },
      async compileStreaming(source) {
        const what = "WebAssembly.compileStreaming()";
        needs(arguments.length, 1, what);
        const options = arguments[1];
        return finish(open(await bytesOf(source, what), what), options, NativeModule, what);
      },
      async instantiate(source, imports = undefined) {
        const what = "WebAssembly.instantiate()";
        needs(arguments.length, 1, what);
        if (imports !== undefined && !isObject(imports)) {
          throw new TypeError(`${what}: the imports must be an object`);
        }
        if (isModule(source)) {
          await undefined;
          return instantiated(source, imports);
        }
        const options = arguments[2];
        const number = open(source, what);
        const module = finish(number, options, NativeModule, what);
        await undefined;
        return { module, instance: instantiated(module, imports) };
      },
      async instantiateStreaming(source, imports = undefined) {
        const what = "WebAssembly.instantiateStreaming()";
        needs(arguments.length, 1, what);
        if (imports !== undefined && !isObject(imports)) {
          throw new TypeError(`${what}: the imports must be an object`);
        }
        const options = arguments[2];
        const module = finish(open(await bytesOf(source, what), what), options, NativeModule, what);
        return { module, instance: instantiated(module, imports) };
      },
      validate(bytes) {
        const what = "WebAssembly.validate()";
        needs(arguments.length, 1, what);
        const number = ops.wasmOpen(bytesIn(bytes, what));
        if (typeof number === "string") return false;
        try {
          return validateInSteps(number) === true;
        } finally {
          ops.wasmClose(number);
        }
      },
    };

    // ---- The namespace

    const WebAssembly = {};
    const define = (key, value, more) =>
      ObjectDefineProperty(WebAssembly, key, { __proto__: null, value, configurable: true, ...more });
    const operations = ReflectOwnKeys(functions);
    for (let i = 0; i < operations.length; i++) {
      define(operations[i], functions[operations[i]], { writable: true, enumerable: true });
    }
    const classes = {
      __proto__: null, Module, Instance, Memory, Table, Global, Tag, Exception, CompileError, LinkError, RuntimeError,
    };
    const names = ReflectOwnKeys(classes);
    for (let i = 0; i < names.length; i++) define(names[i], classes[names[i]], { writable: true });
    define("JSTag", JSTag, {});
    define(SymbolToStringTag, "WebAssembly", {});
    return { WebAssembly };
  }

  let made = null;
  const all = () => (made ??= make());
  // The global object already has V8's property of this name. The property of `lazies` is not
  // enumerable, so that `build.rs` skips it.
  ObjectDefineProperty(internal.lazies, "WebAssembly", { __proto__: null, value: "wasm" });
  internal.wasm = all;

  hooks.wasm = (number, module, kept) => {
    all();
    return imported(number, module, kept);
  };
})
