// ReadableStream.from() (Streams §4.9.1, ReadableStreamFromIterable) and values() (§4.2.5;
// asynchronous iterators of Web IDL §3.7.10).
//: late, after streams-readable.js
(function (internal) {
  "use strict";

  const {
    AsyncIteratorPrototype, ObjectDefineProperty, ObjectSetPrototypeOf, PromiseReject, PromiseResolve, PromiseWithResolvers,
    ReflectApply, SymbolAsyncIterator, SymbolIterator, SymbolToStringTag, TypeError,
  } = internal.primordials;
  const { isObject } = internal.webidl;

  internal.later("streamsIterate", [], () => {
    const { completion, react } = internal.streamsBase();
    const {
      acquireReadableStreamReader, cancelStream, createReadableStream,
      readableStreamDefaultReaderRead, readableStreamReaderRelease,
    } = internal.streamsReadable();

    // ---- From an iterable

    function methodOf(object, key) {
      const method = object[key];
      if (method === undefined || method === null) return null;
      if (typeof method !== "function") throw new TypeError("ReadableStream.from: the argument's iterator method is not a function");
      return method;
    }

    // GetIterator(iterable, async) of ECMAScript. Each value of a synchronous iterator is awaited
    // before the next value is requested.
    function from(iterable) {
      if (!isObject(iterable)) {
        throw new TypeError("ReadableStream.from: the argument is not an iterable object; from([string]) makes one chunk of a string");
      }
      let sync = false;
      let method = methodOf(iterable, SymbolAsyncIterator);
      if (method === null) {
        method = methodOf(iterable, SymbolIterator);
        sync = true;
      }
      if (method === null) throw new TypeError("ReadableStream.from: the argument is not iterable");
      const iterator = ReflectApply(method, iterable, []);
      if (!isObject(iterator)) throw new TypeError("ReadableStream.from: the iterator is not an object");
      const { next } = iterator;
      const source = sync ? new SyncSource(iterator, next) : new AsyncSource(iterator, next);
      return createReadableStream({
        __proto__: null,
        pull: (controller) => source.pull(controller),
        cancel: (reason) => source.cancel(reason),
        highWaterMark: 0,
      });
    }

    const notObject = (what) => new TypeError(`ReadableStream.from: the iterator's ${what} returned a value that is not an object`);

    class AsyncSource {
      iterator;
      next;
      constructor(iterator, next) {
        this.iterator = iterator;
        this.next = next;
      }

      pull(controller) {
        const step = ReflectApply(this.next, this.iterator, []);
        const { promise, resolve, reject } = PromiseWithResolvers();
        whenSettled(step, (result) => {
          if (!isObject(result)) throw notObject("next()");
          if (result.done) closeIfOpen(controller);
          else {
            const { value } = result;
            if (controller.canCloseOrEnqueue) controller.enqueue(value);
          }
        }, resolve, reject);
        return promise;
      }

      cancel(reason) {
        const { return: method } = this.iterator;
        if (method === undefined || method === null) return undefined;
        const { promise, resolve, reject } = PromiseWithResolvers();
        whenSettled(ReflectApply(method, this.iterator, [reason]), (result) => {
          if (!isObject(result)) throw notObject("return()");
        }, resolve, reject);
        return promise;
      }
    }

    class SyncSource {
      iterator;
      next;
      constructor(iterator, next) {
        this.iterator = iterator;
        this.next = next;
      }

      pull(controller) {
        const result = ReflectApply(this.next, this.iterator, []);
        if (!isObject(result)) throw notObject("next()");
        const done = !!result.done;
        const { value } = result;
        const { promise, resolve, reject } = PromiseWithResolvers();
        whenSettled(value, (chunk) => {
          if (done) closeIfOpen(controller);
          else if (controller.canCloseOrEnqueue) controller.enqueue(chunk);
        }, resolve, (reason) => {
          // A value that is a rejected promise ends the iteration.
          if (!done) this.close();
          reject(reason);
        });
        return promise;
      }

      close() {
        try {
          const { return: method } = this.iterator;
          if (method !== undefined && method !== null) ReflectApply(method, this.iterator, []);
        } catch {
          // The rejection that ended the iteration takes precedence.
        }
      }

      cancel(reason) {
        const { return: method } = this.iterator;
        if (method === undefined || method === null) return undefined;
        const result = ReflectApply(method, this.iterator, [reason]);
        if (!isObject(result)) throw notObject("return()");
        result.done;
        return completion(result.value);
      }
    }

    const closeIfOpen = (controller) => {
      if (controller.canCloseOrEnqueue) controller.close();
    };

    // Awaits `value` and passes it to `then`. Calls `reject` if the promise is rejected or `then`
    // throws, and otherwise `resolve`.
    async function whenSettled(value, then, resolve, reject) {
      try {
        then(await value);
      } catch (error) {
        reject(error);
        return;
      }
      resolve();
    }

    // ---- values()

    // An iterator's read request, and the promise of its result. A result that is available
    // immediately needs no resolving functions.
    class Next {
      iteration;
      settled = false;
      made = null;
      capability = null;
      constructor(iteration) {
        this.iteration = iteration;
      }

      get promise() {
        if (this.made === null) {
          this.capability = PromiseWithResolvers();
          this.made = this.capability.promise;
        }
        return this.made;
      }

      chunk(value) {
        let then;
        try {
          if (isObject(value)) ({ then } = value);
        } catch (error) {
          return this.fail(error);
        }
        // Awaits a promise or another thenable.
        if (typeof then === "function") this.unwrap(value, then);
        else this.settle({ value, done: false });
      }

      async unwrap(promise, method) {
        let value;
        try {
          // @ts-expect-error: the object has only the part of `then` that `await` calls
          value = await { __proto__: null, then: (resolve, reject) => ReflectApply(method, promise, [resolve, reject]) };
        } catch (error) {
          return this.fail(error);
        }
        this.settle({ value, done: false });
      }

      close() {
        readableStreamReaderRelease(this.iteration.reader);
        this.end();
      }

      end() {
        this.iteration.finished = true;
        this.settle({ value: undefined, done: true });
      }

      error(reason) {
        readableStreamReaderRelease(this.iteration.reader);
        this.fail(reason);
      }

      settle(result) {
        if (this.made === null) this.made = PromiseResolve(result);
        else this.capability.resolve(result);
        this.over();
      }

      fail(reason) {
        this.iteration.finished = true;
        if (this.made === null) this.made = PromiseReject(reason);
        else this.capability.reject(reason);
        this.over();
      }

      over() {
        const { iteration } = this;
        this.settled = true;
        if (iteration.ongoing === this.made) iteration.ongoing = null;
      }
    }

    // The record of an iterator.
    class Iteration {
      reader;
      preventCancel;
      finished = false;
      // The promise of the last pending operation, or null.
      ongoing = null;
      constructor(reader, preventCancel) {
        this.reader = reader;
        this.preventCancel = preventCancel;
      }

      next() {
        if (this.ongoing !== null) return this.after(() => this.step().promise);
        const request = this.step();
        const { promise } = request;
        if (!request.settled) this.ongoing = promise;
        return promise;
      }

      step() {
        const request = new Next(this);
        if (this.finished) request.end();
        else readableStreamDefaultReaderRead(this.reader, request);
        return request;
      }

      return(value) {
        if (this.ongoing !== null) return this.after(() => this.leave(value));
        return (this.ongoing = this.leave(value));
      }

      leave(value) {
        const result = { value, done: true };
        if (this.finished) return PromiseResolve(result);
        this.finished = true;
        const { reader } = this;
        if (this.preventCancel) {
          readableStreamReaderRelease(reader);
          return PromiseResolve(result);
        }
        const canceled = cancelStream(reader.stream, value);
        readableStreamReaderRelease(reader);
        const { promise, resolve, reject } = PromiseWithResolvers();
        react(canceled, () => resolve(result), (reason) => reject(reason));
        return promise;
      }

      // Runs `step` after the pending operation.
      after(step) {
        const { promise, resolve, reject } = PromiseWithResolvers();
        const go = () => void relay(step(), resolve, reject);
        react(this.ongoing, go, go);
        return (this.ongoing = promise);
      }
    }

    async function relay(promise, resolve, reject) {
      let result;
      try {
        result = await promise;
      } catch (error) {
        reject(error);
        return;
      }
      resolve(result);
    }

    const illegal = (what) => PromiseReject(new TypeError(`${what} was called on an object of another type`));
    let iterationOf;

    class ReadableStreamAsyncIterator {
      #iteration;

      static {
        iterationOf = (value) => (isObject(value) && #iteration in value ? value.#iteration : null);
      }

      constructor(iteration) {
        this.#iteration = iteration;
      }

      next() {
        const iteration = iterationOf(this);
        if (iteration === null) return illegal("ReadableStream AsyncIterator.next");
        return iteration.next();
      }

      return(value) {
        const iteration = iterationOf(this);
        if (iteration === null) return illegal("ReadableStream AsyncIterator.return");
        return iteration.return(value);
      }
    }
    /** @type {any} */
    const { prototype } = ReadableStreamAsyncIterator;
    delete prototype.constructor;
    ObjectSetPrototypeOf(prototype, AsyncIteratorPrototype);
    const members = { __proto__: null, enumerable: true };
    ObjectDefineProperty(prototype, "next", members);
    ObjectDefineProperty(prototype, "return", members);
    const tag = { __proto__: null, value: "ReadableStream AsyncIterator", configurable: true };
    ObjectDefineProperty(prototype, SymbolToStringTag, tag);

    const iterate = (stream, preventCancel) =>
      new ReadableStreamAsyncIterator(new Iteration(acquireReadableStreamReader(stream, false), preventCancel));

    return { __proto__: null, from, iterate };
  });
})
