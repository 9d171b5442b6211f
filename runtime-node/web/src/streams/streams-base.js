// Shared code of all streams (Streams §7, §8): promises that are made on first use, calls of
// algorithms that a Worker may have supplied, queues, and strategies.
//
// A stream, a reader or a controller consists of a *record*, which holds its state and is never
// visible to a Worker, and an object of a public class whose private field refers to the record.
// The abstract operations of the standard are functions and methods of the records, under their
// names: ReadableStreamClose is `readableStreamClose`, and
// ReadableByteStreamControllerRespondInternal is `respondInternal` of that controller. A function
// with another name either has no counterpart or states which operations it implements. The public
// classes (`streams-readable-api.js`, `streams-writable-api.js`) convert arguments and check the
// receiver. A stream that only the runtime uses need not have a public object.
//
//   streams-base.js        this file
//   streams-readable.js    ReadableStream: record, readers, the default controller
//   streams-bytes.js       the byte controller, and reads into a reader's own view
//   streams-readable-api.js, streams-byob-api.js    their public classes
//   streams-iterate.js     from(), values()
//   streams-tee.js, streams-tee-bytes.js, streams-pipe.js
//   streams-writable.js, streams-writable-api.js    WritableStream
//   streams-transform.js   TransformStream
//   streams-text.js, streams-compression.js         the platform's transform streams
//   streams-transfer.js    transfer of streams
//   streams-workers.js     extensions of Cloudflare Workers
//   streams.js             the interface for other files
//
// Each part is created on first use.
//
// Records are instances of classes that declare all their properties, so that no setter that a
// Worker has defined on a prototype is ever called. A queue is a linked list, which needs no array.
//: late, after webidl.js
(function (internal) {
  "use strict";

  const {
    NumberIsNaN, PromisePrototypeThen, PromiseReject, PromiseResolve, PromiseWithResolvers, RangeError, ReflectApply,
    TypeError,
  } = internal.primordials;
  const { dictionary, isObject } = internal.webidl;

  internal.later("streamsBase", [], () => {
    // ---- Promises

    // The return value of a built-in algorithm that itself reports its completion.
    const LATER = { __proto__: null };
    const RESOLVED = PromiseResolve();
    const nothing = () => {};

    // Calls `ok()` or `fail(reason)` in a microtask when the result of an algorithm, which may be
    // any value, is settled. Neither function may return a value: a Worker that replaces the
    // promise constructor would see the value.
    function react(value, ok, fail) {
      try {
        PromisePrototypeThen(isObject(value) ? PromiseResolve(value) : RESOLVED, ok, fail);
      } catch {
        // A getter threw during the lookup of the promise constructor.
        reactAnyway(value, ok, fail);
      }
    }
    async function reactAnyway(value, ok, fail) {
      try {
        await value;
      } catch (error) {
        fail(error);
        return;
      }
      ok();
    }

    // Calls `next()` in a microtask.
    const soon = (next) => react(undefined, next, nothing);

    // Marks a promise's rejection as handled.
    const handled = (promise) => react(promise, nothing, nothing);

    // Calls an algorithm. Returns its result, or a rejected promise if it throws.
    function invoke(algorithm, self, args) {
      if (algorithm === null) return undefined;
      try {
        return ReflectApply(algorithm, self, args);
      } catch (error) {
        return PromiseReject(error);
      }
    }

    // Returns a promise of undefined that settles when `value` does.
    function completion(value) {
      const { promise, resolve, reject } = PromiseWithResolvers();
      react(value, () => resolve(), (reason) => reject(reason));
      return promise;
    }

    const PENDING = 0, FULFILLED = 1, REJECTED = 2;

    // A promise of undefined, such as `closed` or `ready`, that is made on first use. Its rejection
    // counts as handled.
    class LazyPromise {
      state = PENDING;
      reason = undefined;
      // Both fields are null until first use.
      made = null;
      capability = null;

      get promise() {
        if (this.made === null) {
          if (this.state === FULFILLED) {
            this.made = PromiseResolve();
          } else if (this.state === REJECTED) {
            this.made = PromiseReject(this.reason);
            handled(this.made);
          } else {
            this.capability = PromiseWithResolvers();
            this.made = this.capability.promise;
          }
        }
        return this.made;
      }

      resolve() {
        if (this.state !== PENDING) return;
        this.state = FULFILLED;
        if (this.capability !== null) this.capability.resolve();
      }

      reject(reason) {
        if (this.state !== PENDING) return;
        this.state = REJECTED;
        this.reason = reason;
        if (this.capability === null) return;
        handled(this.made);
        this.capability.reject(reason);
      }

      // Replaces the promise with a new pending promise.
      renew() {
        this.state = PENDING;
        this.reason = undefined;
        this.made = this.capability = null;
      }

      // Rejects the promise, or replaces it with a rejected promise if it is settled.
      refuse(reason) {
        if (this.state !== PENDING) this.renew();
        this.reject(reason);
      }
    }

    // ---- Queues

    class Entry {
      next = null;
      value;
      size;
      request;
      constructor(value, size, request) {
        this.value = value;
        this.size = size;
        this.request = request;
      }
    }

    // A queue of values with sizes (Streams §8.1). An entry may carry the write request to settle.
    class Queue {
      first = null;
      last = null;
      length = 0;
      total = 0;

      push(value, size, request) {
        const entry = new Entry(value, size, request);
        if (this.last === null) this.first = entry;
        else this.last.next = entry;
        this.last = entry;
        this.length++;
        this.total += size;
      }

      // The queue must not be empty.
      shift() {
        const entry = this.first;
        this.first = entry.next;
        if (this.first === null) this.last = null;
        // An entry that has been taken must not keep all later entries alive.
        entry.next = null;
        this.length--;
        // Rounding errors may make the sum negative.
        const total = this.total - entry.size;
        this.total = total < 0 ? 0 : total;
        return entry.value;
      }

      // Empties the queue. Returns the first entry, linked to the others, or null.
      clear() {
        const { first } = this;
        this.first = this.last = null;
        this.length = this.total = 0;
        return first;
      }
    }

    // ---- Strategies (Streams §7)

    // Returns a callback member of a dictionary, or null if it is absent.
    function callback(value, what) {
      if (value === undefined) return null;
      if (typeof value !== "function") throw new TypeError(`${what} is not a function`);
      return value;
    }

    // Returns {highWaterMark, size} of a QueuingStrategy, with undefined and null for absent
    // members.
    function strategy(value, what) {
      const { highWaterMark, size } = dictionary(value, what);
      return {
        __proto__: null,
        highWaterMark: highWaterMark === undefined ? undefined : +highWaterMark,
        size: callback(size, `${what}: the strategy's size`),
      };
    }

    function highWaterMarkOf({ highWaterMark }, otherwise) {
      if (highWaterMark === undefined) return otherwise;
      if (NumberIsNaN(highWaterMark) || highWaterMark < 0) {
        throw new RangeError(`A highWaterMark must be a non-negative number, not ${highWaterMark}`);
      }
      return highWaterMark;
    }

    // Returns the size of a chunk; throws if a queue does not accept it.
    function sizeOf(size, chunk) {
      const number = +size(chunk);
      if (NumberIsNaN(number) || number < 0 || number === Infinity) {
        throw new RangeError(`A chunk's size must be finite and non-negative, not ${number}`);
      }
      return number;
    }

    // A constructor argument that wraps a record. Workers cannot obtain it.
    const WRAP = { __proto__: null };

    return {
      __proto__: null,
      LATER, LazyPromise, Queue, WRAP, callback, completion, handled, highWaterMarkOf, invoke, nothing, react, sizeOf, soon,
      strategy,
    };
  });

  internal.later("streamsStrategies", ["ByteLengthQueuingStrategy", "CountQueuingStrategy"], () => {
    const { expose, needs } = internal.webidl;

    function init(given, value, what) {
      needs(given, 1, what);
      const { highWaterMark } = dictionary(value, what);
      if (highWaterMark === undefined) throw new TypeError(`${what}: the init must have a highWaterMark`);
      return +highWaterMark;
    }
    // One function for all instances, which ignores its receiver.
    const { size: byteLength } = { size: (chunk) => chunk.byteLength };
    const { size: one } = { size: () => 1 };

    class ByteLengthQueuingStrategy {
      #highWaterMark;

      constructor(strategy) {
        this.#highWaterMark = init(arguments.length, strategy, "ByteLengthQueuingStrategy");
      }

      get highWaterMark() {
        return this.#highWaterMark;
      }

      get size() {
        this.#highWaterMark; // a brand check
        return byteLength;
      }
    }
    expose(ByteLengthQueuingStrategy);

    class CountQueuingStrategy {
      #highWaterMark;

      constructor(strategy) {
        this.#highWaterMark = init(arguments.length, strategy, "CountQueuingStrategy");
      }

      get highWaterMark() {
        return this.#highWaterMark;
      }

      get size() {
        this.#highWaterMark; // a brand check
        return one;
      }
    }
    expose(CountQueuingStrategy);
    return { ByteLengthQueuingStrategy, CountQueuingStrategy };
  });
})
