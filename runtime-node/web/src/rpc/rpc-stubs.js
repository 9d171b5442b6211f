// The functions that a Worker calls to reach another Worker: stubs of the objects that the other
// Worker offers, their properties, and the promises of results.
//
//   env.OTHER.name           a property of a binding
//   property(…), stub(…)     a promise of a result, which can be used before it settles
//   promise.name, stub.name  a property of a result, or of what a stub refers to
//
// All three are functions, because each of them may turn out to be a function of the other Worker.
// Their members that no class defines are found by a Proxy at the end of the prototype chain.
//: late, after rpc-targets.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypeSlice, ObjectDefineProperty, ObjectPrototype, ObjectSetPrototypeOf, PromisePrototypeFinally,
    PromisePrototypeThen, Proxy, ReflectDeleteProperty, ReflectGet, SymbolDispose,
    SymbolToStringTag, TypeError,
  } = internal.primordials;
  const { isObject } = internal.webidl;

  internal.later("rpcStubs", [], () => {
    const { isTarget, perform } = internal.rpcTargets();
    const KEY = { __proto__: null };

    // Adds private fields to functions.
    class Stamped {
      constructor(callable) {
        return callable;
      }
    }
    // `source` begins calls: `source.begin(path, args)` returns a Pending.
    let sourceOf;
    let pathOf;
    class Reference extends Stamped {
      #source;
      #path;
      constructor(callable, source, path) {
        super(callable);
        this.#source = source;
        this.#path = path;
      }
      static {
        sourceOf = (value) => (isObject(value) && #source in value ? value.#source : null);
        pathOf = (value) => value.#path;
      }
    }

    // A result that another Worker computes. Until the result has arrived, calls of its members are
    // sent to the Worker that computes it.
    class Pending {
      promise;
      // `pipeline(path, args)` returns a Pending, or null if the result has to be awaited.
      pipeline;
      constructor(promise, pipeline) {
        this.promise = promise;
        this.pipeline = pipeline;
        PromisePrototypeThen(promise, undefined, () => {});
      }
      begin(path, args) {
        return this.pipeline(path, args) ??
          new Pending(PromisePrototypeThen(this.promise, (value) => perform(value, path, args)), () => null);
      }
    }
    const failed = async (error) => {
      throw error;
    };
    // A call whose arguments cannot be sent rejects, as a call that fails elsewhere does.
    const begin = (source, path, args) => {
      try {
        return source.begin(path, args);
      } catch (error) {
        return new Pending(failed(error), () => null);
      }
    };

    const create = (prototype, source, path) => {
      // A method has no `prototype` and cannot be called with `new`.
      const { call } = {
        call(...args) {
          return newPromise(begin(source, path, args));
        },
      };
      ReflectDeleteProperty(call, "length");
      ReflectDeleteProperty(call, "name");
      ObjectSetPrototypeOf(call, prototype);
      new Reference(call, source, path);
      return call;
    };

    const illegal = (key) => {
      if (key !== KEY) throw new TypeError("Illegal constructor");
    };
    const own = (stub, what) => {
      const source = sourceOf(stub);
      if (source === null || source.dup === undefined || pathOf(stub).length > 0) throw new TypeError(`${what}: not a stub`);
      return source;
    };

    class RpcStub {
      constructor(key = undefined) {
        illegal(key);
      }
      // Returns another stub for the same object. Each of the two stubs has to be disposed.
      dup() {
        return newStub(own(this, "dup").dup());
      }
      [SymbolDispose]() {
        own(this, "Symbol.dispose").dispose();
      }
    }

    // Returns the promise of a property, which is read again each time.
    const read = (property) => begin(sourceOf(property), pathOf(property), null).promise;
    class RpcProperty {
      constructor(key = undefined) {
        illegal(key);
      }
      then(onFulfilled, onRejected) {
        return PromisePrototypeThen(read(this), onFulfilled, onRejected);
      }
      catch(onRejected) {
        return PromisePrototypeThen(read(this), undefined, onRejected);
      }
      finally(onFinally) {
        return PromisePrototypeFinally(read(this), onFinally);
      }
    }

    class RpcPromise {
      constructor(key = undefined) {
        illegal(key);
      }
      then(onFulfilled, onRejected) {
        return PromisePrototypeThen(sourceOf(this).promise, onFulfilled, onRejected);
      }
      catch(onRejected) {
        return PromisePrototypeThen(sourceOf(this).promise, undefined, onRejected);
      }
      finally(onFinally) {
        return PromisePrototypeFinally(sourceOf(this).promise, onFinally);
      }
      // Disposes the stubs in the result.
      [SymbolDispose]() {
        PromisePrototypeThen(sourceOf(this).promise, internal.rpcTargets().dispose, () => {});
      }
    }

    // The members that none of the classes defines.
    const wildcard = new Proxy({ __proto__: null }, {
      __proto__: null,
      get(_, name, receiver) {
        if (typeof name !== "string") return undefined;
        if (name in ObjectPrototype) return ReflectGet(ObjectPrototype, name, receiver);
        const source = sourceOf(receiver);
        if (source === null || name === "then") return undefined;
        const path = pathOf(receiver);
        const longer = ArrayPrototypeSlice(path);
        longer[path.length] = name;
        return create(ofProperties, source, longer);
      },
    });
    const seal = (constructor, name) => {
      ObjectSetPrototypeOf(constructor.prototype, wildcard);
      ObjectDefineProperty(constructor.prototype, SymbolToStringTag, { __proto__: null, value: name, configurable: true });
    };
    seal(RpcStub, "RpcStub");
    seal(RpcProperty, "RpcProperty");
    seal(RpcPromise, "RpcPromise");

    const { prototype: ofStubs } = RpcStub;
    const { prototype: ofProperties } = RpcProperty;
    const { prototype: ofPromises } = RpcPromise;
    const newPromise = (pending) => create(ofPromises, pending, []);
    const newStub = (source) => create(ofStubs, source, []);
    const newProperty = (source, name) => create(ofProperties, source, [name]);

    // Returns what a session keeps for a function that is sent by reference.
    const exportable = (callable) => {
      const source = sourceOf(callable);
      if (source === null) return callable;
      if (source.dup === undefined || pathOf(callable).length > 0) {
        throw new (internal.exceptions().DOMException)("A promise of a Worker's result cannot be sent; await it first", "DataCloneError");
      }
      return newStub(source.dup());
    };

    // If `value` belongs to another Worker, performs the rest of the path there. Otherwise, or if
    // there is nothing left to perform, returns null.
    const forward = (value, path, from, args) => {
      const source = sourceOf(value);
      if (source === null || (from === path.length && args === null)) return null;
      const rest = ArrayPrototypeSlice(pathOf(value));
      for (let i = from; i < path.length; i++) rest[rest.length] = path[i];
      return begin(source, rest, args).promise;
    };

    return { __proto__: null, Pending, RpcPromise, RpcProperty, RpcStub, exportable, forward, isTarget, newProperty, newStub };
  });
})
