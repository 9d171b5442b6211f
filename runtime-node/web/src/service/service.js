// Service bindings: other Workers as values of `env`.
//
// What is called is another Worker and not an origin: no redirect is followed, no content coding undone, and the URL's host
// leads nowhere; it is what the other Worker sees.
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, SymbolToStringTag, TypeError } = internal.primordials;
  const { isObject, needs } = internal.webidl;

  // Not a name that scripts can ask for: its instances come with `env` alone.
  internal.later("service", [], () => {
    const KEY = { __proto__: null };
    let isFetcher;

    class Fetcher {
      #place;

      static {
        isFetcher = (value) => isObject(value) && #place in value;
      }

      constructor(key, place) {
        if (key !== KEY) throw new TypeError("Illegal constructor");
        this.#place = place;
      }

      // `return await`, because a promise that is returned is resolved by its `then`, which a Worker may replace.
      async fetch(input, init = undefined) {
        const place = this.#place;
        needs(arguments.length, 1, "fetch");
        return await internal.fetch().send(internal.requestRecord(input, init), place);
      }
    }
    ObjectDefineProperty(Fetcher.prototype, SymbolToStringTag, {
      __proto__: null, value: "Fetcher", configurable: true,
    });
    internal.describe("Fetcher", isFetcher, Fetcher, []);

    // Binds the names, in the order of the revision's, in an `env`.
    const bind = (env, names) => {
      for (let i = 0; i < names.length; i++) {
        ObjectDefineProperty(env, names[i], {
          __proto__: null, value: new Fetcher(KEY, i), writable: true, enumerable: true, configurable: true,
        });
      }
    };
    return { __proto__: null, bind };
  });
})
