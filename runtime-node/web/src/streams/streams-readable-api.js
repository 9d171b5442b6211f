// The public classes ReadableStream, ReadableStreamDefaultReader and
// ReadableStreamDefaultController (Streams §4.2–§4.4, §4.6).
//: late, after clone-kinds.js describe.js streams-bytes.js
(function (internal) {
  "use strict";

  const {
    NumberMAX_SAFE_INTEGER, ObjectDefineProperty, PromiseReject, PromiseResolve, PromiseWithResolvers, RangeError,
    SymbolAsyncIterator, TypeError,
  } = internal.primordials;
  const { dictionary, enforced, enumeration, expose, isObject, needs } = internal.webidl;

  internal.later(
    "streamsReadableApi", ["ReadableStream", "ReadableStreamDefaultController", "ReadableStreamDefaultReader"],
    () => {
      const { WRAP, callback, handled, highWaterMarkOf, strategy: strategyOf } = internal.streamsBase();
      const {
        acquireReadableStreamReader, DefaultController, Readable, readableStreamCancel,
        readableStreamDefaultReaderRead, readableStreamReaderRelease,
      } = internal.streamsReadable();

      const illegal = (what) => PromiseReject(new TypeError(`${what} was called on an object of another type`));
      const locked = (what) =>
        new TypeError(`${what}: the ReadableStream is locked to a reader: release the reader first, or tee() the stream`);
      const released = (what) => new TypeError(`${what}: the reader has been released`);

      // A read request. A result that is available immediately needs no resolving functions.
      class Read {
        made = null;
        capability = null;

        chunk(value) {
          this.settle({ value, done: false });
        }
        close(value) {
          this.settle({ value, done: true });
        }
        error(reason) {
          if (this.capability === null) this.made = PromiseReject(reason);
          else this.capability.reject(reason);
        }
        settle(result) {
          if (this.capability === null) this.made = PromiseResolve(result);
          else this.capability.resolve(result);
        }
        get promise() {
          if (this.made === null) {
            this.capability = PromiseWithResolvers();
            this.made = this.capability.promise;
          }
          return this.made;
        }
      }

      let streamOf; // returns the record of a ReadableStream, or null for other values
      let readerOf;
      let controllerOf;

      class ReadableStream {
        #stream;

        static {
          streamOf = (value) => (isObject(value) && #stream in value ? value.#stream : null);
        }

        constructor(underlyingSource = undefined, strategy = undefined) {
          if (underlyingSource === WRAP) {
            this.#stream = strategy;
            strategy.object = this;
            return;
          }
          if (underlyingSource !== undefined && !isObject(underlyingSource)) {
            throw new TypeError("ReadableStream: the underlying source is not an object");
          }
          this.#stream = fromSource(underlyingSource, strategyOf(strategy, "ReadableStream"));
          this.#stream.object = this;
        }

        static from(asyncIterable) {
          needs(arguments.length, 1, "ReadableStream.from");
          return wrap(internal.streamsIterate().from(asyncIterable));
        }

        get locked() {
          return this.#stream.reader !== null;
        }

        cancel(reason = undefined) {
          const stream = streamOf(this);
          if (stream === null) return illegal("ReadableStream.cancel");
          if (stream.reader !== null) return PromiseReject(locked("ReadableStream.cancel"));
          return readableStreamCancel(stream, reason);
        }

        getReader(options = undefined) {
          const stream = this.#stream;
          const { mode } = dictionary(options, "ReadableStream.getReader");
          if (mode === undefined) return new ReadableStreamDefaultReader(WRAP, acquireReadableStreamReader(stream, false));
          enumeration(mode, ["byob"], "ReadableStream.getReader");
          return internal.streamsByobApi().wrapReader(acquireReadableStreamReader(stream, true));
        }

        pipeThrough(transform, options = undefined) {
          const source = this.#stream;
          needs(arguments.length, 1, "ReadableStream.pipeThrough");
          const { isWritable, pipeOptions, readableStreamPipeTo, writableOf } = internal.streamsPipe();
          const pair = dictionary(transform, "ReadableStream.pipeThrough");
          const { readable } = pair;
          if (streamOf(readable) === null) {
            throw new TypeError("ReadableStream.pipeThrough: the argument's 'readable' is not a ReadableStream");
          }
          const { writable } = pair;
          if (!isWritable(writable)) {
            throw new TypeError("ReadableStream.pipeThrough: the argument's 'writable' is not a WritableStream");
          }
          const how = pipeOptions(options, "ReadableStream.pipeThrough");
          if (source.reader !== null) throw locked("ReadableStream.pipeThrough");
          const destination = writableOf(writable);
          if (destination.writer !== null) {
            throw new TypeError("ReadableStream.pipeThrough: the WritableStream is locked to a writer");
          }
          handled(readableStreamPipeTo(source, destination, how));
          return readable;
        }

        pipeTo(destination, options = undefined) {
          const source = streamOf(this);
          if (source === null) return illegal("ReadableStream.pipeTo");
          try {
            needs(arguments.length, 1, "ReadableStream.pipeTo");
            const { isWritable, pipeOptions, readableStreamPipeTo, writableOf } = internal.streamsPipe();
            if (!isWritable(destination)) {
              throw new TypeError("ReadableStream.pipeTo: the destination is not a WritableStream");
            }
            const how = pipeOptions(options, "ReadableStream.pipeTo");
            if (source.reader !== null) throw locked("ReadableStream.pipeTo");
            const sink = writableOf(destination);
            if (sink.writer !== null) {
              throw new TypeError("ReadableStream.pipeTo: the WritableStream is locked to a writer");
            }
            return readableStreamPipeTo(source, sink, how);
          } catch (error) {
            return PromiseReject(error);
          }
        }

        tee() {
          const { first, second } = tee(this.#stream, false);
          return [wrap(first), wrap(second)];
        }

        values(options = undefined) {
          const stream = this.#stream;
          const { preventCancel } = dictionary(options, "ReadableStream.values");
          return internal.streamsIterate().iterate(stream, !!preventCancel);
        }
      }
      const { values } = ReadableStream.prototype;
      expose(ReadableStream);
      const iterator = { __proto__: null, value: values, writable: true, configurable: true };
      ObjectDefineProperty(ReadableStream.prototype, SymbolAsyncIterator, iterator);

      // Returns the public object of a record.
      const wrap = (stream) => stream.object ?? new ReadableStream(WRAP, stream);

      function tee(stream, clone) {
        return stream.controller.bytes ? internal.streamsTeeBytes().readableByteStreamTee(stream)
          : internal.streamsTee().readableStreamDefaultTee(stream, clone);
      }

      function fromSource(source, strategy) {
        let allocate, cancel = null, pull = null, start = null, type;
        if (source !== undefined) {
          ({ autoAllocateChunkSize: allocate } = source);
          if (allocate !== undefined) {
            allocate = enforced(allocate, NumberMAX_SAFE_INTEGER, "ReadableStream: autoAllocateChunkSize");
          }
          cancel = callback(source.cancel, "ReadableStream: the source's cancel");
          pull = callback(source.pull, "ReadableStream: the source's pull");
          start = callback(source.start, "ReadableStream: the source's start");
          ({ type } = source);
          if (type !== undefined) enumeration(type, ["bytes"], "ReadableStream: the source's type");
        }
        const stream = new Readable();
        const algorithms = { __proto__: null, pull, cancel };
        let controller;
        if (type !== undefined) {
          if (strategy.size !== null) {
            throw new RangeError("ReadableStream: the strategy of a byte stream has no size: chunks are counted by their bytes");
          }
          const highWaterMark = highWaterMarkOf(strategy, 0);
          if (allocate === 0) throw new TypeError("ReadableStream: autoAllocateChunkSize must be greater than 0");
          const { ByteController } = internal.streamsBytes();
          controller = new ByteController(stream, algorithms, source, highWaterMark, allocate ?? 0);
          controller.handle = internal.streamsByobApi().wrapController(controller);
        } else {
          const highWaterMark = highWaterMarkOf(strategy, 1);
          controller = new DefaultController(stream, algorithms, source, highWaterMark, strategy.size);
          controller.handle = new ReadableStreamDefaultController(WRAP, controller);
        }
        controller.start(start);
        return stream;
      }

      class ReadableStreamDefaultReader {
        #reader;

        static {
          readerOf = (value) => (isObject(value) && #reader in value ? value.#reader : null);
        }

        constructor(stream, reader = undefined) {
          if (stream === WRAP) {
            this.#reader = reader;
            return;
          }
          needs(arguments.length, 1, "ReadableStreamDefaultReader");
          const record = streamOf(stream);
          if (record === null) throw new TypeError("ReadableStreamDefaultReader: the argument is not a ReadableStream");
          this.#reader = acquireReadableStreamReader(record, false);
        }

        get closed() {
          const reader = readerOf(this);
          return reader === null ? illegal("ReadableStreamDefaultReader.closed") : reader.closed.promise;
        }

        cancel(reason = undefined) {
          const reader = readerOf(this);
          if (reader === null) return illegal("ReadableStreamDefaultReader.cancel");
          if (reader.stream === null) return PromiseReject(released("ReadableStreamDefaultReader.cancel"));
          return readableStreamCancel(reader.stream, reason);
        }

        read() {
          const reader = readerOf(this);
          if (reader === null) return illegal("ReadableStreamDefaultReader.read");
          if (reader.stream === null) return PromiseReject(released("ReadableStreamDefaultReader.read"));
          const request = new Read();
          readableStreamDefaultReaderRead(reader, request);
          return request.promise;
        }

        releaseLock() {
          const reader = this.#reader;
          if (reader.stream !== null) readableStreamReaderRelease(reader);
        }
      }
      expose(ReadableStreamDefaultReader);

      class ReadableStreamDefaultController {
        #controller;

        static {
          controllerOf = (value) => (isObject(value) && #controller in value ? value.#controller : null);
        }

        constructor(key = undefined, controller = undefined) {
          if (key !== WRAP) {
            throw new TypeError("Illegal constructor: a ReadableStream gives its source the controller");
          }
          this.#controller = controller;
        }

        get desiredSize() {
          return this.#controller.desiredSize;
        }

        close() {
          const controller = this.#controller;
          if (!controller.canCloseOrEnqueue) throw new TypeError("ReadableStreamDefaultController.close: the stream is no longer open");
          controller.close();
        }

        enqueue(chunk = undefined) {
          const controller = this.#controller;
          if (!controller.canCloseOrEnqueue) {
            throw new TypeError("ReadableStreamDefaultController.enqueue: the stream is no longer open");
          }
          controller.enqueue(chunk);
        }

        error(e = undefined) {
          this.#controller.error(e);
        }
      }
      expose(ReadableStreamDefaultController);

      internal.isReadableStream = (value) => streamOf(value) !== null;
      const { movers } = internal;
      movers[movers.length++] = (value) => {
        const stream = streamOf(value);
        return stream === null ? null : () => wrap(internal.streamsTransfer().readable(stream));
      };
      const STATES = ["readable", "closed", "errored"];
      internal.describeBy("ReadableStream", internal.isReadableStream, (value) => {
        const stream = streamOf(value);
        return ["locked", stream.reader !== null, "state", STATES[stream.state], "supportsBYOB", stream.controller.bytes];
      });
      internal.describe("ReadableStreamDefaultController", (value) => controllerOf(value) !== null,
        ReadableStreamDefaultController, ["desiredSize"]);
      internal.describeBy("ReadableStreamDefaultReader", (value) => readerOf(value) !== null,
        (value) => ["stream", readerOf(value).stream?.object ?? null]);

      return {
        __proto__: null,
        Read, ReadableStream, ReadableStreamDefaultController, ReadableStreamDefaultReader, illegal, released, streamOf, tee,
        wrap,
      };
    },
  );
})
