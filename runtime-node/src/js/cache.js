// Caches (Service Workers §5.4, §5.5), of which a node keeps what HTTP's rules allow (`ops/cache.rs`): a response that says
// how long it is fresh, is neither private nor sets cookies, and is not too large. What a cache has it may lose.
//
// What would list a cache or the caches there are is not here, as nobody could tell what of it is still there.
(function (internal) {
  "use strict";

  const { ReflectApply, RegExpPrototypeExec, TypeError } = internal.primordials;
  const { DOMString, dictionary, expose, isObject, needs } = internal.webidl;
  const { ops } = internal;
  const bodies = internal.body;

  internal.later("caches", ["Cache", "CacheStorage", "caches"], () => {
    const CREATE = { __proto__: null };
    const HTTP = /^https?:/;
    const VARIES = /(?:^|,)[\t ]*\*[\t ]*(?:,|$)/;

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
        const parts = ops.cacheMatch(name, r.url, r.list);
        if (parts === null) return undefined;
        return internal.newResponse({
          socket: null,
          __proto__: null,
          status: parts[0],
          statusText: parts[1],
          url: r.url,
          redirected: false,
          list: parts[4],
          body: parts[5] === null ? null : bodies.of(bodies.native(parts[5], parts[6]), null),
        });
      }

      async put(request, response) {
        const name = this.#name;
        needs(arguments.length, 2, "Cache.put");
        const r = internal.requestHead(request);
        if (RegExpPrototypeExec(HTTP, r.url) === null || r.method !== "GET") {
          throw new TypeError("Cache.put: the request must be a GET of an http or https URL");
        }
        if (!internal.isResponse(response)) throw new TypeError("Cache.put: the second argument is not a Response");
        const { list, status, statusText } = internal.responseRecord(response);
        if (status === 206) throw new TypeError("Cache.put: a part of something (206) cannot be kept");
        const vary = internal.headers.lookup(list, "vary");
        if (vary !== null && RegExpPrototypeExec(VARIES, vary) !== null) {
          throw new TypeError("Cache.put: a response that varies by everything (Vary: *) cannot be kept");
        }
        const parts = internal.responseParts(response);
        const { content, owner, number, pipe } = bodies.outgoing(parts[2], parts[3]);
        const kept = ops.cachePut(name, r.url, r.list, status, statusText, list, content, owner, number);
        // The stream's own error, rather than that it broke off.
        if (pipe !== null) await pipe.over;
        await kept;
      }

      async delete(request, options = undefined) {
        const name = this.#name;
        needs(arguments.length, 1, "Cache.delete");
        const r = internal.requestHead(request);
        return isGet(r, options, "Cache.delete") && ops.cacheDelete(name, r.url);
      }

      async add(request) {
        this.#name;
        needs(arguments.length, 1, "Cache.add");
        const r = internal.requestRecord(request, undefined);
        const response = await internal.fetch().send(r);
        const { status } = internal.responseRecord(response);
        if (status < 200 || status > 299) throw new TypeError(`Cache.add: the origin answered ${status}`);
        await put(this, r.url, response);
      }

      async addAll(requests) {
        this.#name;
        needs(arguments.length, 1, "Cache.addAll");
        if (!isObject(requests)) throw new TypeError("Cache.addAll: the argument is not a sequence");
        for (const request of requests) await add(this, request);
      }
    }
    // As they were made, whatever becomes of the prototype.
    const ownAdd = Cache.prototype.add, ownPut = Cache.prototype.put;
    const add = (cache, request) => ReflectApply(ownAdd, cache, [request]);
    const put = (cache, url, response) => ReflectApply(ownPut, cache, [url, response]);
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
        this.#default; // the brand
        needs(arguments.length, 1, "caches.open");
        // No other name begins so, and the default one has none.
        return new Cache(CREATE, `=${DOMString(name)}`);
      }
    }
    expose(CacheStorage);

    return { __proto__: null, Cache, CacheStorage, caches: new CacheStorage(CREATE) };
  });
})
