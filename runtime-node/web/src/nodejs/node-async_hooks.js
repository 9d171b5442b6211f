// node:async_hooks: AsyncLocalStorage and AsyncResource.
//
// The storages' values are an immutable linked list. V8 carries the head of the list along with
// promises, next to the number of the invocation (`engine::continuation`); a change of a value
// creates another list. While no storage holds a value, V8 carries only the number, so a Worker
// without storages incurs no cost.
//
// A list may be kept, and entered while another invocation runs: the number next to it is always
// that of the running invocation.
//: module
(function (internal) {
  "use strict";

  const {
    getContinuationPreservedEmbedderData: carried, setContinuationPreservedEmbedderData: carry,
  } = internal.extras;
  const { ReflectApply } = internal.primordials;

  internal.define("asyncContext", () => {
    // One storage's entry in the list. Its fields are own properties, so that changes to
    // `Object.prototype` do not affect them.
    class Entry {
      key;
      value;
      next;
      constructor(key, value, next) {
        this.key = key;
        this.value = value;
        this.next = next;
      }
    }

    const OWNER = 0, STORES = 1;
    // Returns the current list, or null if there is none.
    const stores = () => {
      const now = carried();
      return typeof now === "object" && now !== null ? now[STORES] : null;
    };
    const owner = (now) => (typeof now === "object" && now !== null ? now[OWNER] : now);

    const enter = (list) => {
      const number = owner(carried());
      carry(list === null ? number : [number, list]);
    };

    function find(list, key) {
      for (let entry = list; entry !== null; entry = entry.next) if (entry.key === key) return entry;
      return null;
    }

    // Returns the list without this key.
    function without(list, key) {
      if (find(list, key) === null) return list;
      return list.key === key ? list.next : new Entry(list.key, list.value, without(list.next, key));
    }

    // Calls `callback` with `list` as the current list.
    function within(list, callback, self, args) {
      const before = stores();
      enter(list);
      try {
        return ReflectApply(callback, self, args);
      } finally {
        enter(before);
      }
    }

    const withValue = (key, value) => new Entry(key, value, without(stores(), key));
    return { enter, find, withValue, stores, within, without };
  });

  internal.define("async_hooks", () => {
    const { enter, find, withValue, stores, within, without } = internal.use("asyncContext");
    const { defineHidden, needFunction, needObject, needString } = internal.node;

    class AsyncLocalStorage {
      // The storage's key in the list; `disable` replaces it.
      #key = {};
      #default;
      #name;

      constructor(options = {}) {
        const { defaultValue, name = "" } = needObject(options, "options");
        this.#default = defaultValue;
        this.#name = needString(name, "options.name");
      }

      get name() {
        return this.#name;
      }

      static bind(fn) {
        return AsyncResource.bind(fn);
      }

      static snapshot() {
        const list = stores();
        return (fn, ...args) => within(list, needFunction(fn, "fn"), undefined, args);
      }

      run(store, callback, ...args) {
        const list = withValue(this.#key, store);
        return within(list, callback, undefined, args);
      }

      exit(callback, ...args) {
        return within(without(stores(), this.#key), callback, undefined, args);
      }

      enterWith(store) {
        enter(withValue(this.#key, store));
      }

      getStore() {
        const entry = find(stores(), this.#key);
        return entry === null ? this.#default : entry.value;
      }

      disable() {
        this.#key = {};
      }
    }

    let lastId = 1;

    class AsyncResource {
      #list = stores();
      #id = ++lastId;
      #trigger;

      constructor(type, options = {}) {
        needString(type, "type");
        const trigger = typeof options === "number" ? options : options?.triggerAsyncId;
        this.#trigger = trigger === undefined ? 1 : trigger;
      }

      runInAsyncScope(fn, thisArg, ...args) {
        return within(this.#list, fn, thisArg, args);
      }

      // Does nothing: there are no destroy hooks.
      emitDestroy() {
        this.#id;
        return this;
      }

      asyncId() {
        return this.#id;
      }

      triggerAsyncId() {
        return this.#trigger;
      }

      bind(fn, thisArg = undefined) {
        needFunction(fn, "fn");
        const list = this.#list;
        const isBound = arguments.length > 1;
        const bound = function (...args) {
          return within(list, fn, isBound ? thisArg : this, args);
        };
        return defineHidden(bound, { name: `bound ${fn.name}`, length: fn.length });
      }

      static bind(fn, type = undefined, ...rest) {
        needFunction(fn, "fn");
        const resource = new AsyncResource(type || fn.name || "bound-anonymous-fn");
        return rest.length > 0 ? resource.bind(fn, rest[0]) : resource.bind(fn);
      }
    }

    return { AsyncLocalStorage, AsyncResource };
  });
})
