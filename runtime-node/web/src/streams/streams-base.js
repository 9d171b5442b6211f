// What every stream is made of (Streams §7, §8): promises that nobody may ever ask for, calls of algorithms that may be a
// Worker's, queues, and strategies.
//
// A stream, a reader, a controller is two things: a *record*, which holds its state and which no Worker ever sees, and an
// object of a public class whose private field refers to the record. The algorithms of the standard are functions and
// methods of the records; the public classes (`streams-readable-api.js`, `streams-writable-api.js`) convert arguments and
// look who calls. Within the node a stream may well have no public object at all.
//
//   streams-base.js        this
//   streams-readable.js    ReadableStream: record, readers, the default controller
//   streams-bytes.js       the byte controller, and what fills a view that a reader brings
//   streams-readable-api.js, streams-byob-api.js    the classes around those
//   streams-iterate.js     from(), values()
//   streams-tee.js, streams-tee-bytes.js, streams-pipe.js
//   streams-writable.js, streams-writable-api.js    WritableStream
//   streams-transform.js   TransformStream
//   streams-text.js, streams-compression.js         transforms of the platform
//   streams-transfer.js    what becomes of streams that are transferred
//   streams-workers.js     what Workers have beyond the standard
//   streams.js             what other files here use of it all
//
// Each is made when the first of it is wanted.
//
// Records are objects of classes with all their properties declared, so that no setter of a Worker's on a prototype is ever
// met, and a queue is a list of entries, which needs no array.
(function (internal) {
  "use strict";

  const {
    NumberIsNaN, PromisePrototypeThen, PromiseReject, PromiseResolve, PromiseWithResolvers, RangeError, ReflectApply,
    TypeError,
  } = internal.primordials;
  const { dictionary, isObject } = internal.webidl;

  internal.later("streamsBase", [], () => {
    // ---- Promises

    // What an algorithm of ours returns that will say by itself when it is done.
    const LATER = { __proto__: null };
    const RESOLVED = PromiseResolve();
    const nothing = () => {};

    // Calls `ok()` or `fail(reason)`, in a microtask, when what an algorithm has returned is settled; that may be anything.
    // Both return nothing: whoever replaces the constructor of promises is told what they return.
    function react(value, ok, fail) {
      try {
        PromisePrototypeThen(isObject(value) ? PromiseResolve(value) : RESOLVED, ok, fail);
      } catch {
        // A getter has thrown on the way to the constructor of promises.
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

    // Its rejection is not one that nobody handles.
    const handled = (promise) => react(promise, nothing, nothing);

    // What the algorithm returns; a rejected promise if it throws.
    function invoke(algorithm, self, args) {
      if (algorithm === null) return undefined;
      try {
        return ReflectApply(algorithm, self, args);
      } catch (error) {
        return PromiseReject(error);
      }
    }

    // A promise of undefined, once that is settled.
    function completion(value) {
      const { promise, resolve, reject } = PromiseWithResolvers();
      react(value, () => resolve(), (reason) => reject(reason));
      return promise;
    }

    const PENDING = 0, FULFILLED = 1, REJECTED = 2;

    // A promise of undefined, such as `closed` and `ready`, which is made when it is first asked for. If it is rejected that
    // counts as handled.
    class LazyPromise {
      state = PENDING;
      reason = undefined;
      // Both null until it is asked for.
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

      // From now on it is another one.
      renew() {
        this.state = PENDING;
        this.reason = undefined;
        this.made = this.capability = null;
      }

      // Rejects it, or if it is settled makes it another one that is rejected.
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

    // Values with sizes (Streams §8.1), and what was asked for by who put a value there.
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

      // There must be one.
      shift() {
        const entry = this.first;
        this.first = entry.next;
        if (this.first === null) this.last = null;
        // Or what is taken, once it is old, would keep all that came later.
        entry.next = null;
        this.length--;
        // Sums of fractions may come out below nothing.
        const total = this.total - entry.size;
        this.total = total < 0 ? 0 : total;
        return entry.value;
      }

      // Takes all out: the first entry, which refers to the next, or null.
      clear() {
        const { first } = this;
        this.first = this.last = null;
        this.length = this.total = 0;
        return first;
      }
    }

    // ---- Strategies (Streams §7)

    // A member of a dictionary that is a function; null if there is none.
    function callback(value, what) {
      if (value === undefined) return null;
      if (typeof value !== "function") throw new TypeError(`${what} is not a function`);
      return value;
    }

    // {highWaterMark, size} of a QueuingStrategy: undefined and null where it does not say.
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
        throw new RangeError(`A highWaterMark must be a number that is not negative, and not ${highWaterMark}`);
      }
      return highWaterMark;
    }

    // What `size` says of a chunk, if a queue takes that.
    function sizeOf(size, chunk) {
      const number = +size(chunk);
      if (NumberIsNaN(number) || number < 0 || number === Infinity) {
        throw new RangeError(`A chunk's size must be finite and not negative, and not ${number}`);
      }
      return number;
    }

    // What a constructor is told to wrap a record, and cannot be told by a Worker.
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
    // One function each, which does not care who calls it.
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
        this.#highWaterMark; // the brand
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
        this.#highWaterMark; // the brand
        return one;
      }
    }
    expose(CountQueuingStrategy);
    return { ByteLengthQueuingStrategy, CountQueuingStrategy };
  });
})
