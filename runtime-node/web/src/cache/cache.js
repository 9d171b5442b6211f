// Caches (Service Workers §5.4, §5.5). A node stores a response if HTTP's rules allow it
// (`store.rs`): the response is fresh, for an explicit lifetime or for a tenth of the time since it
// was last modified; it is not private, sets no cookies and is not too large. A cache may lose
// entries at any time, so operations that list entries or caches are not implemented.
//: late, after fetch.js
(function (internal) {
  "use strict";

  const { PromisePrototypeThen, PromiseWithResolvers, RegExpPrototypeExec, TypeError } = internal.primordials;
  const { DOMString, dictionary, expose, needs, sequence } = internal.webidl;
  const { ops } = internal;
  const bodies = internal.body;

  internal.later("caches", ["Cache", "CacheStorage", "caches"], () => {
    const CREATE = { __proto__: null };
    const HTTP = /^https?:/;
    const VARIES = /(?:^|,)[\t ]*\*[\t ]*(?:,|$)/;

    // Returns a Request's record if a response to it can be stored; throws otherwise.
    function storable(r, what) {
      if (RegExpPrototypeExec(HTTP, r.url) === null || r.method !== "GET") {
        throw new TypeError(`${what}: the request must be a GET of an http or https URL`);
      }
      return r;
    }

    // Stores a Response to the request `r` in the cache `name`.
    async function store(name, r, response, what) {
      const { list, status, statusText } = internal.responseRecord(response);
      if (status === 206) throw new TypeError(`${what}: a partial response (206) cannot be stored`);
      const vary = internal.headers.lookup(list, "vary");
      if (vary !== null && RegExpPrototypeExec(VARIES, vary) !== null) {
        throw new TypeError(`${what}: a response with Vary: * cannot be stored`);
      }
      const parts = internal.responseParts(response);
      const { content, owner, number, pipe } = bodies.outgoing(parts[2], parts[3]);
      const done = ops.cachePut(name, r.url, r.list, status, statusText, list, content, owner, number);
      // The stream's own error takes precedence over the cache's error, because the latter
      // only reports that the body was interrupted.
      if (pipe !== null) await pipe.over;
      await done;
    }

    // Fetches all requests, and stores their responses if every one has an OK status.
    async function fetchAndStore(name, requests, what) {
      const records = [];
      for (let i = 0; i < requests.length; i++) {
        records[i] = storable(internal.requestRecord(requests[i], undefined), what);
      }
      const responses = await all(records, async (r) => {
        const response = await internal.fetch().send(r);
        const { status } = internal.responseRecord(response);
        if (status < 200 || status > 299) throw new TypeError(`${what}: ${r.url} has the status ${status}`);
        return response;
      });
      await all(records, (r, i) => store(name, r, responses[i], what));
    }

    // Resolves with the results of a function that returns a promise for each value. Rejects with
    // the first error.
    function all(values, each) {
      const { promise, resolve, reject } = PromiseWithResolvers();
      const results = [];
      let left = values.length;
      if (left === 0) resolve(results);
      for (let i = 0; i < values.length; i++) {
        PromisePrototypeThen(each(values[i], i), (result) => {
          results[i] = result;
          if (--left === 0) resolve(results);
        }, reject);
      }
      return promise;
    }

    const isGet = (r, options, what) => r.method === "GET" || !!dictionary(options, what).ignoreMethod;

    class Cache {
      #name;

      constructor(key = undefined, name = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use caches.open or caches.default");
        this.#name = name;
      }

      async match(request, options = undefined) {
        const name = this.#name;
        needs(arguments.length, 1, "Cache.match");
        const r = internal.requestHead(request);
        if (!isGet(r, options, "Cache.match")) return undefined;
        const found = ops.cacheMatch(name, r.url, r.list);
        if (found === null) return undefined;
        return internal.newResponse({
          socket: null,
          __proto__: null,
          status: found.status,
          statusText: found.statusText,
          url: r.url,
          redirected: false,
          list: found.headers,
          body: found.owner === null ? null : bodies.of(bodies.native(found.owner, found.stream), null),
        });
      }

      async put(request, response) {
        const name = this.#name;
        needs(arguments.length, 2, "Cache.put");
        const r = storable(internal.requestHead(request), "Cache.put");
        if (!internal.isResponse(response)) throw new TypeError("Cache.put: the second argument is not a Response");
        await store(name, r, response, "Cache.put");
      }

      async delete(request, options = undefined) {
        const name = this.#name;
        needs(arguments.length, 1, "Cache.delete");
        const r = internal.requestHead(request);
        return isGet(r, options, "Cache.delete") && ops.cacheDelete(name, r.url);
      }

      async add(request) {
        const name = this.#name;
        needs(arguments.length, 1, "Cache.add");
        await fetchAndStore(name, [request], "Cache.add");
      }

      async addAll(requests) {
        const name = this.#name;
        needs(arguments.length, 1, "Cache.addAll");
        await fetchAndStore(name, sequence(requests, (request) => request, "Cache.addAll"), "Cache.addAll");
      }
    }
    expose(Cache);

    class CacheStorage {
      #default = new Cache(CREATE, "");

      constructor(key = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use caches");
      }

      get default() {
        return this.#default;
      }

      async open(name) {
        this.#default; // a brand check
        needs(arguments.length, 1, "caches.open");
        // The prefix keeps named caches apart from the default cache, whose name is empty.
        return new Cache(CREATE, `=${DOMString(name)}`);
      }
    }
    expose(CacheStorage);

    return { __proto__: null, Cache, CacheStorage, caches: new CacheStorage(CREATE) };
  });
})
