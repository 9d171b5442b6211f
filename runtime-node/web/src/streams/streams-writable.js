// WritableStream without its public classes (Streams §5): the records of streams and writers, and
// the controller.
//
// A write has a *request*: an object with the methods `resolve()` and `reject(reason)`, such as the
// result of `Promise.withResolvers`, or null.
//: late, after abort.js streams-base.js
(function (internal) {
  "use strict";

  const { PromiseReject, PromiseWithResolvers, ReflectApply, TypeError } = internal.primordials;

  internal.later("streamsWritable", [], () => {
    const { LATER, LazyPromise, Queue, invoke, react, sizeOf } = internal.streamsBase();

    const WRITABLE = 0, ERRORING = 1, CLOSED = 2, ERRORED = 3;

    class Writable {
      state = WRITABLE;
      error = undefined;
      backpressure = false;
      writer = null;
      controller = null;
      // The requests of a close in the queue and of a close in progress.
      closeRequest = null;
      inFlightClose = null;
      // The queue entry of the write in progress.
      inFlightWrite = null;
      // {promise, resolve, reject, reason, wasErroring}, or null.
      abortRequest = null;
      object = null;

      get closeQueuedOrInFlight() {
        return this.closeRequest !== null || this.inFlightClose !== null;
      }

      get desiredSize() {
        return this.state === WRITABLE ? this.controller.desiredSize : this.state === CLOSED ? 0 : null;
      }
    }

    class Writer {
      stream;
      closed = new LazyPromise();
      ready = new LazyPromise();
      // A callback of a built-in writer, which is called when there may be room again.
      hasRoom = null;
      constructor(stream) {
        this.stream = stream;
      }
    }

    // ---- Writers

    function acquireWritableStreamDefaultWriter(stream) {
      if (stream.writer !== null) {
        throw new TypeError("The WritableStream is locked to a writer: release the writer first");
      }
      const writer = (stream.writer = new Writer(stream));
      const { closed, ready } = writer;
      if (stream.state === WRITABLE) {
        if (stream.closeQueuedOrInFlight || !stream.backpressure) ready.resolve();
      } else if (stream.state === ERRORING) {
        ready.reject(stream.error);
      } else if (stream.state === CLOSED) {
        ready.resolve();
        closed.resolve();
      } else {
        ready.reject(stream.error);
        closed.reject(stream.error);
      }
      return writer;
    }

    function writableStreamDefaultWriterRelease(writer) {
      const released = new TypeError("The writer has been released");
      writer.ready.refuse(released);
      writer.closed.refuse(released);
      writer.stream.writer = null;
      writer.stream = null;
    }

    // Writes a chunk. Returns null, or {reason} if the write is rejected.
    function writableStreamDefaultWriterWrite(writer, chunk, request) {
      const { stream } = writer;
      const { controller } = stream;
      const size = controller.getChunkSize(chunk);
      // The strategy's `size` may have changed any state.
      if (stream !== writer.stream) return { reason: new TypeError("The writer has been released") };
      if (stream.state === WRITABLE && !stream.closeQueuedOrInFlight) {
        controller.write(chunk, size, request);
        return null;
      }
      if (stream.state === CLOSED || (stream.closeQueuedOrInFlight && stream.state !== ERRORED)) {
        return { reason: new TypeError("The WritableStream is closed, or about to be") };
      }
      return { reason: stream.error };
    }

    // ---- The stream

    // Returns a promise of undefined. The stream must not be closing.
    function writableStreamClose(stream) {
      if (stream.state === CLOSED || stream.state === ERRORED) {
        return PromiseReject(new TypeError("The WritableStream is closed or has failed"));
      }
      const request = (stream.closeRequest = PromiseWithResolvers());
      if (stream.writer !== null && stream.backpressure && stream.state === WRITABLE) stream.writer.ready.resolve();
      stream.controller.close();
      return request.promise;
    }

    // Returns a promise of undefined, or undefined in place of a fulfilled promise.
    function writableStreamAbort(stream, reason) {
      if (stream.state === CLOSED || stream.state === ERRORED) return undefined;
      stream.controller.signalAbort(reason);
      // Listeners of the signal may have changed any state.
      if (stream.state === CLOSED || stream.state === ERRORED) return undefined;
      if (stream.abortRequest !== null) return stream.abortRequest.promise;
      const wasErroring = stream.state === ERRORING;
      const { promise, resolve, reject } = PromiseWithResolvers();
      stream.abortRequest = {
        __proto__: null, promise, resolve, reject, reason: wasErroring ? undefined : reason, wasErroring,
      };
      if (!wasErroring) writableStreamStartErroring(stream, reason);
      return promise;
    }

    function writableStreamStartErroring(stream, reason) {
      stream.state = ERRORING;
      stream.error = reason;
      if (stream.writer !== null) stream.writer.ready.refuse(reason);
      if (stream.inFlightWrite === null && stream.inFlightClose === null && stream.controller.started) {
        writableStreamFinishErroring(stream);
      }
    }

    function writableStreamFinishErroring(stream) {
      const { abortRequest, controller, error } = stream;
      stream.state = ERRORED;
      for (let entry = controller.queue.clear(); entry !== null; entry = entry.next) {
        if (entry.request !== null) entry.request.reject(error);
      }
      stream.abortRequest = null;
      if (abortRequest === null) return writableStreamRejectCloseAndClosedPromiseIfNeeded(stream);
      if (abortRequest.wasErroring) {
        abortRequest.reject(error);
        return writableStreamRejectCloseAndClosedPromiseIfNeeded(stream);
      }
      react(controller.abortSteps(abortRequest.reason), () => {
        abortRequest.resolve();
        writableStreamRejectCloseAndClosedPromiseIfNeeded(stream);
      }, (reason) => {
        abortRequest.reject(reason);
        writableStreamRejectCloseAndClosedPromiseIfNeeded(stream);
      });
    }

    function writableStreamRejectCloseAndClosedPromiseIfNeeded(stream) {
      const { closeRequest, writer } = stream;
      if (closeRequest !== null) {
        stream.closeRequest = null;
        closeRequest.reject(stream.error);
      }
      if (writer !== null) writer.closed.reject(stream.error);
    }

    // Handles a failed operation of the sink, or a failed `start`.
    function writableStreamDealWithRejection(stream, reason) {
      if (stream.state === WRITABLE) writableStreamStartErroring(stream, reason);
      else writableStreamFinishErroring(stream);
    }

    function writableStreamUpdateBackpressure(stream, backpressure) {
      if (backpressure === stream.backpressure) return;
      stream.backpressure = backpressure;
      if (stream.writer === null) return;
      if (backpressure) stream.writer.ready.renew();
      else stream.writer.ready.resolve();
    }

    // ---- The controller

    // The queue entry that stands for closing the stream.
    const CLOSE = { __proto__: null };

    class Controller {
      stream;
      queue = new Queue();
      started = false;
      highWaterMark;
      // Null if every chunk has a size of 1.
      size;
      // `this` of the algorithms, the controller that is their argument, and the algorithms.
      self;
      /** @type {object} */
      handle = this;
      sinkWrite;
      sinkClose;
      sinkAbort;
      // The signal, which is created on first use; whether it is aborted; and the reason.
      signal = null;
      aborted = false;
      abortReason = undefined;

      constructor(stream, { write, close, abort }, self, highWaterMark, size) {
        this.stream = stream;
        this.sinkWrite = write;
        this.sinkClose = close;
        this.sinkAbort = abort;
        this.self = self;
        this.highWaterMark = highWaterMark;
        this.size = size;
        stream.controller = this;
      }

      // Calls `start`, and throws its exception to the caller. `handle` must be set.
      start(algorithm) {
        const { stream } = this;
        writableStreamUpdateBackpressure(stream, this.hasBackpressure);
        const started = algorithm === null ? undefined : ReflectApply(algorithm, this.self, [this.handle]);
        react(started, () => {
          this.started = true;
          this.advanceQueueIfNeeded();
        }, (reason) => {
          this.started = true;
          writableStreamDealWithRejection(stream, reason);
        });
      }

      get desiredSize() {
        return this.highWaterMark - this.queue.total;
      }

      get hasBackpressure() {
        return this.highWaterMark <= this.queue.total;
      }

      getChunkSize(chunk) {
        const { size } = this;
        if (size === null) return 1;
        try {
          return sizeOf(size, chunk);
        } catch (error) {
          this.error(error);
          return 1;
        }
      }

      write(chunk, size, request) {
        this.queue.push(chunk, size, request);
        writableStreamUpdateBackpressure(this.stream, this.hasBackpressure);
        this.advanceQueueIfNeeded();
      }

      close() {
        this.queue.push(CLOSE, 0, null);
        this.advanceQueueIfNeeded();
      }

      // Starts the first operation in the queue, unless the sink is busy.
      advanceQueueIfNeeded() {
        const { stream } = this;
        if (!this.started || stream.inFlightWrite !== null) return;
        if (stream.state === ERRORING) return writableStreamFinishErroring(stream);
        const { first } = this.queue;
        if (first === null) return;
        if (first.value === CLOSE) this.processClose();
        else this.processWrite(first);
      }

      processClose() {
        const { stream } = this;
        stream.inFlightClose = stream.closeRequest;
        stream.closeRequest = null;
        this.queue.shift();
        const { sinkClose, self } = this;
        const closed = invoke(sinkClose, self, []);
        this.clearAlgorithms();
        if (closed !== LATER) react(closed, this.closed, this.failed);
      }

      closed = () => {
        const { stream } = this;
        stream.inFlightClose.resolve();
        stream.inFlightClose = null;
        if (stream.state === ERRORING) {
          stream.error = undefined;
          if (stream.abortRequest !== null) stream.abortRequest.resolve();
          stream.abortRequest = null;
        }
        stream.state = CLOSED;
        if (stream.writer !== null) stream.writer.closed.resolve();
      };

      processWrite(entry) {
        this.stream.inFlightWrite = entry;
        let written;
        if (this.sinkWrite !== null) {
          try {
            written = ReflectApply(this.sinkWrite, this.self, [entry.value, this.handle]);
          } catch (error) {
            written = PromiseReject(error);
          }
        }
        if (written !== LATER) react(written, this.written, this.failed);
      }

      written = () => {
        const { queue, stream } = this;
        const { request } = stream.inFlightWrite;
        stream.inFlightWrite = null;
        if (request !== null) request.resolve();
        queue.shift();
        if (!stream.closeQueuedOrInFlight && stream.state === WRITABLE) {
          writableStreamUpdateBackpressure(stream, this.hasBackpressure);
        }
        this.advanceQueueIfNeeded();
        const { writer } = stream;
        if (writer !== null && writer.hasRoom !== null) writer.hasRoom();
      };

      // Handles the failure of the operation in progress.
      failed = (reason) => {
        const { stream } = this;
        if (stream.inFlightWrite !== null) {
          if (stream.state === WRITABLE) this.clearAlgorithms();
          const { request } = stream.inFlightWrite;
          stream.inFlightWrite = null;
          // The entry of the failed write is the first; `writableStreamFinishErroring` rejects the
          // others.
          this.queue.shift();
          if (request !== null) request.reject(reason);
        } else {
          stream.inFlightClose.reject(reason);
          stream.inFlightClose = null;
          if (stream.abortRequest !== null) stream.abortRequest.reject(reason);
          stream.abortRequest = null;
        }
        writableStreamDealWithRejection(stream, reason);
      };

      abortSteps(reason) {
        const { sinkAbort, self } = this;
        this.clearAlgorithms();
        return invoke(sinkAbort, self, [reason]);
      }

      // Fails the stream. Has no effect unless the stream is writable.
      error(reason) {
        if (this.stream.state !== WRITABLE) return;
        this.clearAlgorithms();
        writableStreamStartErroring(this.stream, reason);
      }

      signalAbort(reason) {
        if (this.aborted) return;
        this.aborted = true;
        this.abortReason = reason;
        if (this.signal !== null) internal.abort().abort(this.signal, reason);
      }

      getSignal() {
        if (this.signal === null) {
          const { abort, newSignal } = internal.abort();
          this.signal = newSignal();
          if (this.aborted) abort(this.signal, this.abortReason);
        }
        return this.signal;
      }

      // Drops references to algorithms that cannot be called again.
      clearAlgorithms() {
        this.sinkWrite = this.sinkClose = this.sinkAbort = this.self = this.size = null;
      }
    }

    // Creates a stream with built-in algorithms, each of which may be omitted.
    function createWritableStream({
      start = null, write = null, close = null, abort = null, highWaterMark = 1, size = null,
    }) {
      const stream = new Writable();
      const algorithms = { __proto__: null, write, close, abort };
      new Controller(stream, algorithms, undefined, highWaterMark, size).start(start);
      return stream;
    }

    return {
      __proto__: null,
      CLOSED, Controller, ERRORED, ERRORING, WRITABLE, Writable,
      acquireWritableStreamDefaultWriter, createWritableStream, writableStreamAbort, writableStreamClose,
      writableStreamDefaultWriterRelease, writableStreamDefaultWriterWrite,
    };
  });
})
