// Service bindings: other Workers, and the Worker's own static files, as values of `env`.
// `rpc-connect.js` calls the methods of other Workers.
//
// The target is not an origin: redirects are not followed, content codings are not decoded, and the
// URL's host is not resolved but passed to the target.
//: late, after fetch.js
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, ObjectPrototype, ObjectSetPrototypeOf, Proxy, ReflectGet, SymbolToStringTag, TypeError } =
    internal.primordials;
  const { isObject, needs } = internal.webidl;

  // The class has no global name: instances are available only through `env`.
  internal.later("service", [], () => {
    const KEY = { __proto__: null };
    let isFetcher;
    let callableAt; // (value) → the index of the Worker whose methods can be called; null if there is none

    class Fetcher {
      #index;
      #isWorker;

      static {
        isFetcher = (value) => isObject(value) && #index in value;
        callableAt = (value) => (isFetcher(value) && value.#isWorker ? value.#index : null);
      }

      constructor(key, index, isWorker) {
        if (key !== KEY) throw new TypeError("Illegal constructor");
        this.#index = index;
        this.#isWorker = isWorker;
      }

      // `return await`, because returning a promise would call its `then`, which a Worker may
      // replace.
      async fetch(input, init = undefined) {
        const index = this.#index;
        needs(arguments.length, 1, "fetch");
        return await internal.fetch().send(internal.requestRecord(input, init), index);
      }
    }
    ObjectDefineProperty(Fetcher.prototype, SymbolToStringTag, {
      __proto__: null, value: "Fetcher", configurable: true,
    });
    internal.describe("Fetcher", isFetcher, Fetcher, []);

    // Every other member of a binding to a Worker stands for a member of that Worker's entrypoint.
    ObjectSetPrototypeOf(Fetcher.prototype, new Proxy({ __proto__: null }, {
      __proto__: null,
      get(_, name, receiver) {
        if (typeof name !== "string" || name in ObjectPrototype) return ReflectGet(ObjectPrototype, name, receiver);
        const index = callableAt(receiver);
        return index === null || name === "then" ? undefined : internal.rpcConnections().ofBinding(index, name);
      },
    }));

    // Defines the bindings in `env`: first the bindings to Workers, in the order in which the
    // revision lists them, and then the binding to the static files.
    const bind = (env, names, workers) => {
      for (let i = 0; i < names.length; i++) {
        ObjectDefineProperty(env, names[i], {
          __proto__: null, value: new Fetcher(KEY, i, i < workers), writable: true, enumerable: true, configurable: true,
        });
      }
    };
    return { __proto__: null, bind };
  });
})
