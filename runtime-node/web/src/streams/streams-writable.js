// WritableStream without its classes (Streams §5): the record of a stream, its writer, and its controller.
//
// Who writes may want to know how it went: with a chunk goes a *request*, an object with the methods `resolve()` and
// `reject(reason)`, such as what `Promise.withResolvers` makes, or null.
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
      // Requests: of the close that waits its turn, and of the operation that the sink is at.
      closeRequest = null;
      inFlightClose = null;
      // An entry of the controller's queue.
      inFlightWrite = null;
      // {promise, resolve, reject, reason, wasErroring}, or null.
      abortRequest = null;
      object = null;

      get isClosing() {
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
      // Of a writer of ours: called when there may be room again.
      hasRoom = null;
      constructor(stream) {
        this.stream = stream;
      }
    }

    // ---- Writers

    function acquire(stream) {
      if (stream.writer !== null) {
        throw new TypeError("The WritableStream is locked to a writer: release that first");
      }
      const writer = (stream.writer = new Writer(stream));
      const { closed, ready } = writer;
      if (stream.state === WRITABLE) {
        if (stream.isClosing || !stream.backpressure) ready.resolve();
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

    function release(writer) {
      const released = new TypeError("The writer has been released");
      writer.ready.refuse(released);
      writer.closed.refuse(released);
      writer.stream.writer = null;
      writer.stream = null;
    }

    // Returns null, or what the request would be rejected with.
    function write(writer, chunk, request) {
      const { stream } = writer;
      const { controller } = stream;
      const size = controller.sizeOf(chunk);
      // The strategy may have done anything.
      if (stream !== writer.stream) return { reason: new TypeError("The writer has been released") };
      if (stream.state === WRITABLE && !stream.isClosing) {
        controller.write(chunk, size, request);
        return null;
      }
      if (stream.state === CLOSED || (stream.isClosing && stream.state !== ERRORED)) {
        return { reason: new TypeError("The WritableStream is closed, or about to be") };
      }
      return { reason: stream.error };
    }

    // ---- The stream

    // A promise of undefined. Nothing must have closed the stream, or be about to.
    function close(stream) {
      if (stream.state === CLOSED || stream.state === ERRORED) {
        return PromiseReject(new TypeError("The WritableStream is closed or has failed"));
      }
      const request = (stream.closeRequest = PromiseWithResolvers());
      if (stream.writer !== null && stream.backpressure && stream.state === WRITABLE) stream.writer.ready.resolve();
      stream.controller.close();
      return request.promise;
    }

    // A promise of undefined; undefined where that is fulfilled already.
    function abort(stream, reason) {
      if (stream.state === CLOSED || stream.state === ERRORED) return undefined;
      stream.controller.signalAbort(reason);
      // Who listens to the signal may have done anything.
      if (stream.state === CLOSED || stream.state === ERRORED) return undefined;
      if (stream.abortRequest !== null) return stream.abortRequest.promise;
      const wasErroring = stream.state === ERRORING;
      const { promise, resolve, reject } = PromiseWithResolvers();
      stream.abortRequest = {
        __proto__: null, promise, resolve, reject, reason: wasErroring ? undefined : reason, wasErroring,
      };
      if (!wasErroring) startErroring(stream, reason);
      return promise;
    }

    function startErroring(stream, reason) {
      stream.state = ERRORING;
      stream.error = reason;
      if (stream.writer !== null) stream.writer.ready.refuse(reason);
      if (stream.inFlightWrite === null && stream.inFlightClose === null && stream.controller.started) {
        finishErroring(stream);
      }
    }

    function finishErroring(stream) {
      const { abortRequest, controller, error } = stream;
      stream.state = ERRORED;
      for (let entry = controller.queue.clear(); entry !== null; entry = entry.next) {
        if (entry.request !== null) entry.request.reject(error);
      }
      stream.abortRequest = null;
      if (abortRequest === null) return rejectClose(stream);
      if (abortRequest.wasErroring) {
        abortRequest.reject(error);
        return rejectClose(stream);
      }
      react(controller.abort(abortRequest.reason), () => {
        abortRequest.resolve();
        rejectClose(stream);
      }, (reason) => {
        abortRequest.reject(reason);
        rejectClose(stream);
      });
    }

    function rejectClose(stream) {
      const { closeRequest, writer } = stream;
      if (closeRequest !== null) {
        stream.closeRequest = null;
        closeRequest.reject(stream.error);
      }
      if (writer !== null) writer.closed.reject(stream.error);
    }

    // An operation of the sink has failed, or its start.
    function fail(stream, reason) {
      if (stream.state === WRITABLE) startErroring(stream, reason);
      else finishErroring(stream);
    }

    function setBackpressure(stream, backpressure) {
      if (backpressure === stream.backpressure) return;
      stream.backpressure = backpressure;
      if (stream.writer === null) return;
      if (backpressure) stream.writer.ready.renew();
      else stream.writer.ready.resolve();
    }

    // ---- The controller

    // In the queue, the end.
    const CLOSE = { __proto__: null };

    class Controller {
      stream;
      queue = new Queue();
      started = false;
      highWaterMark;
      // Null where every chunk has a size of one.
      size;
      // The algorithms, what they are called on, and what they are told is the controller.
      self;
      handle = this;
      sinkWrite;
      sinkClose;
      sinkAbort;
      // Made when it is asked for; whether it is aborted, and why.
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

      // Once `handle` is set. An exception of `start` goes to the caller.
      start(algorithm) {
        const { stream } = this;
        setBackpressure(stream, this.hasBackpressure);
        const started = algorithm === null ? undefined : ReflectApply(algorithm, this.self, [this.handle]);
        react(started, () => {
          this.started = true;
          this.advance();
        }, (reason) => {
          this.started = true;
          fail(stream, reason);
        });
      }

      get desiredSize() {
        return this.highWaterMark - this.queue.total;
      }

      get hasBackpressure() {
        return this.highWaterMark <= this.queue.total;
      }

      sizeOf(chunk) {
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
        setBackpressure(this.stream, this.hasBackpressure);
        this.advance();
      }

      close() {
        this.queue.push(CLOSE, 0, null);
        this.advance();
      }

      // Begins with what is first in the queue, unless the sink is busy.
      advance() {
        const { stream } = this;
        if (!this.started || stream.inFlightWrite !== null) return;
        if (stream.state === ERRORING) return finishErroring(stream);
        const { first } = this.queue;
        if (first === null) return;
        if (first.value === CLOSE) this.closeSink();
        else this.writeToSink(first);
      }

      closeSink() {
        const { stream } = this;
        stream.inFlightClose = stream.closeRequest;
        stream.closeRequest = null;
        this.queue.shift();
        const { sinkClose, self } = this;
        const closed = invoke(sinkClose, self, []);
        this.forget();
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

      writeToSink(entry) {
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
        if (!stream.isClosing && stream.state === WRITABLE) setBackpressure(stream, this.hasBackpressure);
        this.advance();
        const { writer } = stream;
        if (writer !== null && writer.hasRoom !== null) writer.hasRoom();
      };

      // What the sink was at has failed.
      failed = (reason) => {
        const { stream } = this;
        if (stream.inFlightWrite !== null) {
          if (stream.state === WRITABLE) this.forget();
          const { request } = stream.inFlightWrite;
          stream.inFlightWrite = null;
          // Its entry is the first; the others are told by the stream.
          this.queue.shift();
          if (request !== null) request.reject(reason);
        } else {
          stream.inFlightClose.reject(reason);
          stream.inFlightClose = null;
          if (stream.abortRequest !== null) stream.abortRequest.reject(reason);
          stream.abortRequest = null;
        }
        fail(stream, reason);
      };

      abort(reason) {
        const { sinkAbort, self } = this;
        this.forget();
        return invoke(sinkAbort, self, [reason]);
      }

      // If it is not too late.
      error(reason) {
        if (this.stream.state !== WRITABLE) return;
        this.forget();
        startErroring(this.stream, reason);
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

      // What nobody will call any more must not be kept.
      forget() {
        this.sinkWrite = this.sinkClose = this.sinkAbort = this.self = this.size = null;
      }
    }

    // A stream of algorithms of our own: what is left out is null.
    function make({ start = null, write = null, close = null, abort = null, highWaterMark = 1, size = null }) {
      const stream = new Writable();
      const algorithms = { __proto__: null, write, close, abort };
      new Controller(stream, algorithms, undefined, highWaterMark, size).start(start);
      return stream;
    }

    return {
      __proto__: null,
      CLOSED, Controller, ERRORED, ERRORING, WRITABLE, Writable, abort, acquire, close, make, release, write,
    };
  });
})
