// The objects that a Worker offers to its callers, and the members that a caller can reach. These
// objects are entrypoints and objects that are passed by reference.
//
// A caller reaches what the class declares: methods and accessors of the prototypes between the
// object and `WorkerEntrypoint` or `RpcTarget`. A caller reaches neither the object's own
// properties, which hold its state, nor members of `Object.prototype`, nor private members. In
// plain objects and arrays, which are copied when they are sent, a caller reaches the own
// properties.
//: late, after rpc-encode.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectHasOwn, ObjectPrototype,
    ObjectPrototypeIsPrototypeOf, ReflectApply, ReflectConstruct, SymbolDispose, TypeError,
  } = internal.primordials;
  const { isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("rpcTargets", [], () => {
    const { FUNCTION, PROXY } = internal.objectKinds;

    // The names that no caller reaches, because they have a meaning of their own on a stub, or on
    // any object.
    const isReserved = (name) => name === "then" || name === "dup" || name in ObjectPrototype;
    // The names of an entrypoint that no caller reaches: those of event handlers, which only the
    // platform calls.
    const HANDLERS = {
      __proto__: null,
      alarm: true, connect: true, email: true, fetch: true, queue: true, scheduled: true, tail: true, test: true, trace: true,
      webSocketClose: true, webSocketError: true, webSocketMessage: true,
    };

    let isTarget;
    class RpcTarget {
      #brand = true;
      static {
        isTarget = (value) => isObject(value) && #brand in value;
      }
    }

    // If the default export is a class, each event creates an instance of it.
    let isEntrypoint;
    class WorkerEntrypoint {
      #brand = true;
      constructor(ctx, env) {
        this.ctx = ctx;
        this.env = env;
      }
      static {
        isEntrypoint = (value) => isObject(value) && #brand in value;
      }
    }
    const entrypointPrototype = WorkerEntrypoint.prototype;
    const targetPrototype = RpcTarget.prototype;

    const isFunction = (value) => typeof value === "function" && ops.cloneKind(value) === FUNCTION;
    const isEntrypointClass = (value) =>
      isFunction(value) && ObjectPrototypeIsPrototypeOf(entrypointPrototype, ObjectGetOwnPropertyDescriptor(value, "prototype")?.value);

    // Returns an instance of the entrypoint that a Worker exports under a name.
    const entrypoint = (exported, name, context, env) => {
      if (!isEntrypointClass(exported)) {
        throw new TypeError(
          `The Worker's ${name === "" ? "default export" : `export "${name}"`} accepts no method calls; export a class that ` +
            'extends WorkerEntrypoint of "cloudflare:workers"',
        );
      }
      return ReflectConstruct(exported, [context, env]);
    };

    const missing = (name) => new TypeError(`The RPC receiver does not implement the method "${name}".`);

    // Built-in functions that a peer calls as methods, such as those of a stream.
    let methodsOf; // (value) → the methods; null for anything else
    class Service {
      #methods;
      constructor(methods) {
        this.#methods = methods;
      }
      static {
        methodsOf = (value) => (isObject(value) && #methods in value ? value.#methods : null);
      }
    }

    const isService = (value) => methodsOf(value) !== null;

    // Reads a member that the class of `object` declares.
    function declared(object, name) {
      if (isReserved(name) || (HANDLERS[name] === true && isEntrypoint(object))) throw missing(name);
      if (ObjectHasOwn(object, name)) {
        throw new TypeError(
          `The RPC receiver's "${name}" is a property of the instance; declare a method or an accessor in the class to offer it.`,
        );
      }
      let at = ObjectGetPrototypeOf(object);
      while (at !== null && at !== ObjectPrototype && at !== entrypointPrototype && at !== targetPrototype) {
        const member = ObjectGetOwnPropertyDescriptor(at, name);
        if (member !== undefined) {
          if ("value" in member) return member.value;
          return member.get === undefined ? undefined : ReflectApply(member.get, object, []);
        }
        at = ObjectGetPrototypeOf(at);
      }
      throw missing(name);
    }

    function member(value, name) {
      const methods = methodsOf(value);
      if (methods !== null) return methods[name];
      if (isTarget(value) || isEntrypoint(value)) return declared(value, name);
      if (!isObject(value) || typeof value === "function" || ops.cloneKind(value) === PROXY) throw missing(name);
      const prototype = ObjectGetPrototypeOf(value);
      const isPlain = prototype === ObjectPrototype || prototype === null || ArrayIsArray(value);
      if (!isPlain || !ObjectHasOwn(value, name)) throw missing(name);
      return value[name];
    }

    // Follows the path of names from `target`, and calls what is there with `args`, or returns it
    // if `args` is null.
    function perform(target, path, args) {
      let receiver = undefined;
      let value = target;
      for (let i = 0; i < path.length; i++) {
        const forwarded = internal.rpcStubs().forward(value, path, i, args);
        if (forwarded !== null) return forwarded;
        receiver = value;
        value = member(value, path[i]);
      }
      const forwarded = internal.rpcStubs().forward(value, path, path.length, args);
      if (forwarded !== null) return forwarded;
      if (args === null) {
        const isMethod = isFunction(value) && (isTarget(receiver) || isEntrypoint(receiver));
        return isMethod ? (...args) => ReflectApply(value, receiver, args) : value;
      }
      if (!isFunction(value)) {
        throw path.length === 0 ? new TypeError("The RPC receiver is not a function.") : missing(path[path.length - 1]);
      }
      return ReflectApply(value, methodsOf(receiver) === null ? receiver : undefined, args);
    }

    // Calls the disposer of an object, if it has one. Reports its exceptions.
    const dispose = (target) => {
      try {
        const methods = methodsOf(target);
        if (methods !== null) return methods.dispose();
        const disposer = isObject(target) ? target[SymbolDispose] : undefined;
        if (typeof disposer === "function") ReflectApply(disposer, target, []);
      } catch (error) {
        internal.reportError(error);
      }
    };

    return {
      __proto__: null, RpcTarget, Service, WorkerEntrypoint, dispose, entrypoint, isEntrypointClass, isService, isTarget, perform,
    };
  });
})
