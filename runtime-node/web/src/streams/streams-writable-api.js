// The public classes WritableStream, WritableStreamDefaultWriter and
// WritableStreamDefaultController (Streams §5.2–§5.4).
//: late, after clone-kinds.js streams-writable.js
(function (internal) {
  "use strict";

  const { PromiseReject, PromiseResolve, PromiseWithResolvers, RangeError, TypeError } = internal.primordials;
  const { expose, isObject, needs } = internal.webidl;

  internal.later(
    "streamsWritableApi", ["WritableStream", "WritableStreamDefaultController", "WritableStreamDefaultWriter"],
    () => {
      const { WRAP, callback, highWaterMarkOf, strategy: strategyOf } = internal.streamsBase();
      const {
        acquireWritableStreamDefaultWriter, Controller, WRITABLE, Writable, writableStreamAbort,
        writableStreamClose, writableStreamDefaultWriterRelease, writableStreamDefaultWriterWrite,
      } = internal.streamsWritable();

      const illegal = (what) => PromiseReject(new TypeError(`${what} was called on an object of another type`));
      const locked = (what) => new TypeError(`${what}: the WritableStream is locked to a writer: release the writer first`);
      const released = (what) => new TypeError(`${what}: the writer has been released`);
      const closing = (what) => new TypeError(`${what}: the WritableStream is closed, or about to be`);

      let streamOf; // returns the record of a WritableStream, or null for other values
      let writerOf;
      let isController;

      class WritableStream {
        #stream;

        static {
          streamOf = (value) => (isObject(value) && #stream in value ? value.#stream : null);
        }

        constructor(underlyingSink = undefined, strategy = undefined) {
          if (underlyingSink === WRAP) {
            this.#stream = strategy;
            strategy.object = this;
            return;
          }
          if (underlyingSink !== undefined && !isObject(underlyingSink)) {
            throw new TypeError("WritableStream: the underlying sink is not an object");
          }
          this.#stream = fromSink(underlyingSink, strategyOf(strategy, "WritableStream"));
          this.#stream.object = this;
        }

        get locked() {
          return this.#stream.writer !== null;
        }

        abort(reason = undefined) {
          const stream = streamOf(this);
          if (stream === null) return illegal("WritableStream.abort");
          if (stream.writer !== null) return PromiseReject(locked("WritableStream.abort"));
          return writableStreamAbort(stream, reason) ?? PromiseResolve();
        }

        close() {
          const stream = streamOf(this);
          if (stream === null) return illegal("WritableStream.close");
          if (stream.writer !== null) return PromiseReject(locked("WritableStream.close"));
          if (stream.closeQueuedOrInFlight) return PromiseReject(closing("WritableStream.close"));
          return writableStreamClose(stream);
        }

        getWriter() {
          return new WritableStreamDefaultWriter(WRAP, acquireWritableStreamDefaultWriter(this.#stream));
        }
      }
      expose(WritableStream);

      // Returns the public object of a record.
      const wrap = (stream) => stream.object ?? new WritableStream(WRAP, stream);

      function fromSink(sink, strategy) {
        const algorithms = { __proto__: null, write: null, close: null, abort: null };
        let start = null;
        if (sink !== undefined) {
          algorithms.abort = callback(sink.abort, "WritableStream: the sink's abort");
          algorithms.close = callback(sink.close, "WritableStream: the sink's close");
          start = callback(sink.start, "WritableStream: the sink's start");
          if (sink.type !== undefined) throw new RangeError("WritableStream: the sink's type is reserved; leave it out");
          algorithms.write = callback(sink.write, "WritableStream: the sink's write");
        }
        const stream = new Writable();
        const controller = new Controller(stream, algorithms, sink, highWaterMarkOf(strategy, 1), strategy.size);
        controller.handle = new WritableStreamDefaultController(WRAP, controller);
        controller.start(start);
        return stream;
      }

      class WritableStreamDefaultWriter {
        #writer;

        static {
          writerOf = (value) => (isObject(value) && #writer in value ? value.#writer : null);
        }

        constructor(stream, writer = undefined) {
          if (stream === WRAP) {
            this.#writer = writer;
            return;
          }
          needs(arguments.length, 1, "WritableStreamDefaultWriter");
          const record = streamOf(stream);
          if (record === null) throw new TypeError("WritableStreamDefaultWriter: the argument is not a WritableStream");
          this.#writer = acquireWritableStreamDefaultWriter(record);
        }

        get closed() {
          const writer = writerOf(this);
          return writer === null ? illegal("WritableStreamDefaultWriter.closed") : writer.closed.promise;
        }

        get desiredSize() {
          const { stream } = this.#writer;
          if (stream === null) throw released("WritableStreamDefaultWriter.desiredSize");
          return stream.desiredSize;
        }

        get ready() {
          const writer = writerOf(this);
          return writer === null ? illegal("WritableStreamDefaultWriter.ready") : writer.ready.promise;
        }

        abort(reason = undefined) {
          const writer = writerOf(this);
          if (writer === null) return illegal("WritableStreamDefaultWriter.abort");
          if (writer.stream === null) return PromiseReject(released("WritableStreamDefaultWriter.abort"));
          return writableStreamAbort(writer.stream, reason) ?? PromiseResolve();
        }

        close() {
          const writer = writerOf(this);
          if (writer === null) return illegal("WritableStreamDefaultWriter.close");
          const { stream } = writer;
          if (stream === null) return PromiseReject(released("WritableStreamDefaultWriter.close"));
          if (stream.closeQueuedOrInFlight) return PromiseReject(closing("WritableStreamDefaultWriter.close"));
          return writableStreamClose(stream);
        }

        releaseLock() {
          const writer = this.#writer;
          if (writer.stream !== null) writableStreamDefaultWriterRelease(writer);
        }

        write(chunk = undefined) {
          const writer = writerOf(this);
          if (writer === null) return illegal("WritableStreamDefaultWriter.write");
          if (writer.stream === null) return PromiseReject(released("WritableStreamDefaultWriter.write"));
          const request = PromiseWithResolvers();
          const refused = writableStreamDefaultWriterWrite(writer, chunk, request);
          return refused === null ? request.promise : PromiseReject(refused.reason);
        }
      }
      expose(WritableStreamDefaultWriter);

      class WritableStreamDefaultController {
        #controller;

        static {
          isController = (value) => isObject(value) && #controller in value;
        }

        constructor(key = undefined, controller = undefined) {
          if (key !== WRAP) throw new TypeError("Illegal constructor: a WritableStream gives its sink the controller");
          this.#controller = controller;
        }

        get signal() {
          return this.#controller.getSignal();
        }

        error(e = undefined) {
          const controller = this.#controller;
          if (controller.stream.state === WRITABLE) controller.error(e);
        }
      }
      expose(WritableStreamDefaultController);

      const isWritable = (value) => streamOf(value) !== null;
      internal.isWritableStream = isWritable;
      const { movers } = internal;
      movers[movers.length++] = (value) => {
        const stream = streamOf(value);
        return stream === null ? null : () => wrap(internal.streamsTransfer().writable(stream));
      };
      const STATES = ["writable", "erroring", "closed", "errored"];
      internal.describeBy("WritableStream", isWritable, (value) => {
        const stream = streamOf(value);
        return ["locked", stream.writer !== null, "state", STATES[stream.state]];
      });
      internal.describeBy("WritableStreamDefaultWriter", (value) => writerOf(value) !== null, (value) => {
        const { stream } = writerOf(value);
        return ["desiredSize", stream === null ? null : stream.desiredSize, "stream", stream?.object ?? null];
      });
      internal.describe("WritableStreamDefaultController", (value) => isController(value), WritableStreamDefaultController,
        ["signal"]);

      return {
        __proto__: null,
        WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter, isWritable, streamOf, wrap,
      };
    },
  );
})
