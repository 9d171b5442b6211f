// node:crypto: shared code for data in arguments and results, for callbacks, for native states that
// are freed with their owners, and for classes whose instances are rarely used as streams.
//: module
(function (internal) {
  "use strict";

  const {
    FinalizationRegistry, FinalizationRegistryPrototypeRegister, FinalizationRegistryPrototypeUnregister, MathMin,
    ObjectDefineProperty, ObjectSetPrototypeOf, PromisePrototypeThen, ReflectApply, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, Uint8Array,
  } = internal.primordials;
  const { bufferSource } = internal.webidl;
  const { setTimeout } = internal.platform;

  internal.define("cryptoData", () => {
    const { invalid } = internal.node;
    const { Buffer } = internal.use("buffer");

    const DATA = "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer";
    // The maximum number of bytes per native call, because such a call cannot be terminated.
    const STEP = 2 ** 18;
    // The maximum value of most lengths and counts.
    const MAX_INT32 = 2 ** 31 - 1;

    // Returns the bytes of a string or a buffer source.
    function bytesOf(value, encoding, name) {
      if (typeof value === "string") return Buffer.from(value, encoding === "buffer" ? undefined : encoding);
      const bytes = bufferSource(value);
      if (bytes === null) throw invalid(name, DATA, value);
      return bytes;
    }
    // Returns bytes as they are, or as text if there is an encoding.
    const encoded = (bytes, encoding) =>
      (encoding === undefined || encoding === null || encoding === "buffer" ? bytes : bytes.toString(encoding));

    // Calls `use` with each part of the bytes in turn.
    function inSteps(bytes, use) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      if (length <= STEP) {
        use(bytes);
        return;
      }
      for (let at = 0; at < length; at += STEP) {
        const from = TypedArrayPrototypeGetByteOffset(bytes) + at;
        use(new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), from, MathMin(STEP, length - at)));
      }
    }

    // ---- Callbacks

    // Calls back in a task of its own. Reports an exception of the callback as uncaught.
    const callLater = (callback, ...results) => setTimeout(() => {
      try {
        ReflectApply(callback, undefined, results);
      } catch (error) {
        internal.reportError(error);
      }
    }, 0);

    // Calls back with the result of a promise, converted by `finish`, or with the error of either.
    const settle = (promise, callback, finish) => {
      PromisePrototypeThen(promise, (value) => {
        let result;
        try {
          result = finish(value);
        } catch (error) {
          callLater(callback, error);
          return;
        }
        callLater(callback, null, result);
      }, (error) => callLater(callback, error));
    };

    // ---- Native states

    // Returns functions that register and forget the owner of a native state, which has a
    // number. `close` is called with the number if the owner is collected before it is forgotten.
    // The registry is created on first use, because a snapshot cannot contain one.
    function keeper(close) {
      let registry = null;
      return {
        keep(owner, number) {
          registry ??= new FinalizationRegistry(close);
          FinalizationRegistryPrototypeRegister(registry, owner, number, owner);
          return number;
        },
        forget: (owner) => FinalizationRegistryPrototypeUnregister(registry, owner),
      };
    }

    // ---- Streams

    // Returns a class whose instances inherit from a class of streams. An instance gets the state
    // of a stream when the state is first read: few hashes and ciphers are used as streams.
    function lazily(Base) {
      /** @returns {void} */
      function Lazy(options) {
        if (options !== undefined) set(this, "_options", options);
      }
      ObjectSetPrototypeOf(Lazy.prototype, Base.prototype);
      ObjectSetPrototypeOf(Lazy, Base);
      const states = ["_readableState", "_writableState"];
      for (let i = 0; i < states.length; i++) {
        const name = states[i];
        ObjectDefineProperty(Lazy.prototype, name, {
          __proto__: null,
          get() {
            if (this === Lazy.prototype) return undefined;
            for (let j = 0; j < states.length; j++) set(this, states[j], undefined);
            ReflectApply(Base, this, [this._options]);
            return this[name];
          },
          set(value) {
            set(this, name, value);
          },
          enumerable: false,
          configurable: true,
        });
      }
      return /** @type {any} */ (Lazy);
    }
    const set = (object, name, value) => ObjectDefineProperty(object, name, {
      __proto__: null, value, writable: true, enumerable: false, configurable: true,
    });

    return { __proto__: null, DATA, MAX_INT32, bytesOf, callLater, encoded, inSteps, keeper, lazily, settle };
  });
})
