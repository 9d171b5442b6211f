// ReadableStream without its public classes (Streams §4): the records of streams and readers, and
// the default controller.
//
// A read passes a *request*, an object with the methods `chunk(value)`, `close(view)` and
// `error(reason)`. Exactly one of these methods is called, once.
//: late, after streams-base.js
(function (internal) {
  "use strict";

  const { PromiseReject, ReflectApply, TypeError } = internal.primordials;

  internal.later("streamsReadable", [], () => {
    const { LATER, LazyPromise, Queue, completion, invoke, react, sizeOf } = internal.streamsBase();

    const READABLE = 0, CLOSED = 1, ERRORED = 2;

    class Readable {
      state = READABLE;
      error = undefined;
      // Set once the stream has been read or canceled.
      disturbed = false;
      reader = null;
      controller = null;
      // The public object, if there is one.
      object = null;
    }

    class Reader {
      stream;
      // Set if the reader supplies the views to fill.
      byob;
      closed = new LazyPromise();
      requests = new Queue();
      constructor(stream, byob) {
        this.stream = stream;
        this.byob = byob;
      }
    }

    // Implements AcquireReadableStreamDefaultReader and, with `byob`,
    // AcquireReadableStreamBYOBReader.
    function acquireReadableStreamReader(stream, byob) {
      if (stream.reader !== null) {
        throw new TypeError("The ReadableStream is locked to a reader: release the reader first, or tee() the stream");
      }
      if (byob && !stream.controller.bytes) {
        throw new TypeError('Only a ReadableStream of type "bytes" can have a BYOB reader');
      }
      const reader = (stream.reader = new Reader(stream, byob));
      if (stream.state === CLOSED) reader.closed.resolve();
      else if (stream.state === ERRORED) reader.closed.reject(stream.error);
      return reader;
    }

    // Implements ReadableStreamDefaultReaderRelease and ReadableStreamBYOBReaderRelease.
    function readableStreamReaderRelease(reader) {
      const { stream } = reader;
      reader.closed.refuse(new TypeError("The reader has been released"));
      stream.controller.releaseSteps();
      stream.reader = null;
      reader.stream = null;
      if (reader.requests.first !== null) {
        const reason = new TypeError("The reader was released before its read completed");
        readableStreamDefaultReaderErrorReadRequests(reader, reason);
      }
    }

    // Implements ReadableStreamDefaultReaderErrorReadRequests and
    // ReadableStreamBYOBReaderErrorReadIntoRequests.
    function readableStreamDefaultReaderErrorReadRequests(reader, reason) {
      for (let entry = reader.requests.clear(); entry !== null; entry = entry.next) entry.value.error(reason);
    }

    // The reader must be a default reader that is not released.
    function readableStreamDefaultReaderRead(reader, request) {
      const { stream } = reader;
      stream.disturbed = true;
      if (stream.state === READABLE) stream.controller.pullSteps(request);
      else if (stream.state === CLOSED) request.close(undefined);
      else request.error(stream.error);
    }

    function readableStreamClose(stream) {
      stream.state = CLOSED;
      const { reader } = stream;
      if (reader === null) return;
      reader.closed.resolve();
      if (reader.byob) return;
      for (let entry = reader.requests.clear(); entry !== null; entry = entry.next) entry.value.close(undefined);
    }

    function readableStreamError(stream, reason) {
      stream.state = ERRORED;
      stream.error = reason;
      const { reader } = stream;
      if (reader === null) return;
      reader.closed.reject(reason);
      readableStreamDefaultReaderErrorReadRequests(reader, reason);
    }

    // Implements ReadableStreamCancel without its promise: returns the result of the source's
    // `cancel`, undefined if the stream is closed, or a rejected promise if it is errored.
    function cancelStream(stream, reason) {
      stream.disturbed = true;
      if (stream.state === CLOSED) return undefined;
      if (stream.state === ERRORED) return PromiseReject(stream.error);
      readableStreamClose(stream);
      const { reader } = stream;
      if (reader !== null && reader.byob) {
        for (let entry = reader.requests.clear(); entry !== null; entry = entry.next) entry.value.close(undefined);
      }
      return stream.controller.cancelSteps(reason);
    }

    // Returns a promise of undefined.
    const readableStreamCancel = (stream, reason) => completion(cancelStream(stream, reason));

    // The common part of both controllers, which pull from the source while the queue is too short.
    class Controller {
      stream;
      queue = new Queue();
      started = false;
      closing = false;
      pulling = false;
      pullAgain = false;
      highWaterMark;
      // The receiver of the algorithms, the controller that they receive, and the algorithms.
      self;
      handle = this;
      puller;
      canceler;

      constructor(stream, { pull, cancel }, self, highWaterMark) {
        this.stream = stream;
        this.puller = pull;
        this.canceler = cancel;
        this.self = self;
        this.highWaterMark = highWaterMark;
        stream.controller = this;
      }

      // Calls `start`, and throws its exception to the caller. `handle` must be set.
      start(algorithm) {
        const started = algorithm === null ? undefined : ReflectApply(algorithm, this.self, [this.handle]);
        react(started, () => {
          this.started = true;
          this.callPullIfNeeded();
        }, this.error);
      }

      get desiredSize() {
        const { state } = this.stream;
        return state === READABLE ? this.highWaterMark - this.queue.total : state === CLOSED ? 0 : null;
      }

      get canCloseOrEnqueue() {
        return !this.closing && this.stream.state === READABLE;
      }

      get shouldCallPull() {
        if (!this.started || !this.canCloseOrEnqueue) return false;
        const { reader } = this.stream;
        return (reader !== null && reader.requests.first !== null) || this.highWaterMark > this.queue.total;
      }

      callPullIfNeeded() {
        if (this.puller === null || !this.shouldCallPull) return;
        if (this.pulling) {
          this.pullAgain = true;
          return;
        }
        this.pulling = true;
        let pulled;
        try {
          pulled = ReflectApply(this.puller, this.self, [this.handle]);
        } catch (error) {
          pulled = PromiseReject(error);
        }
        if (pulled !== LATER) react(pulled, this.pulled, this.error);
      }

      pulled = () => {
        this.pulling = false;
        if (!this.pullAgain) return;
        this.pullAgain = false;
        this.callPullIfNeeded();
      };

      error = (reason) => {
        if (this.stream.state !== READABLE) return;
        this.reset();
        this.clearAlgorithms();
        readableStreamError(this.stream, reason);
      };

      cancelSteps(reason) {
        this.reset();
        const { canceler, self } = this;
        this.clearAlgorithms();
        return invoke(canceler, self, [reason]);
      }

      reset() {
        this.queue.clear();
      }

      // Drops references to algorithms that cannot be called again.
      clearAlgorithms() {
        this.puller = this.canceler = this.self = null;
      }
    }

    class DefaultController extends Controller {
      bytes = false;
      // Null if every chunk has a size of 1.
      size;

      constructor(stream, algorithms, self, highWaterMark, size) {
        super(stream, algorithms, self, highWaterMark);
        this.size = size;
      }

      // The stream must be open.
      enqueue(chunk) {
        const { reader } = this.stream;
        if (reader !== null && reader.requests.first !== null) {
          reader.requests.shift().chunk(chunk);
        } else {
          const { size } = this;
          let weight = 1;
          if (size !== null) {
            try {
              weight = sizeOf(size, chunk);
            } catch (error) {
              this.error(error);
              throw error;
            }
          }
          this.queue.push(chunk, weight, null);
        }
        this.callPullIfNeeded();
      }

      // The stream must be open.
      close() {
        this.closing = true;
        if (this.queue.first !== null) return;
        this.clearAlgorithms();
        readableStreamClose(this.stream);
      }

      pullSteps(request) {
        const { queue } = this;
        if (queue.first === null) {
          this.stream.reader.requests.push(request, 0, null);
          this.callPullIfNeeded();
          return;
        }
        const chunk = queue.shift();
        if (this.closing && queue.first === null) {
          this.clearAlgorithms();
          readableStreamClose(this.stream);
        } else {
          this.callPullIfNeeded();
        }
        request.chunk(chunk);
      }

      releaseSteps() {}

      clearAlgorithms() {
        super.clearAlgorithms();
        this.size = null;
      }
    }

    // Creates a stream with built-in algorithms, each of which may be omitted.
    function createReadableStream({
      start = null, pull = null, cancel = null, highWaterMark = 1, size = null,
    }) {
      const stream = new Readable();
      new DefaultController(stream, { __proto__: null, pull, cancel }, undefined, highWaterMark, size).start(start);
      return stream;
    }

    return {
      __proto__: null,
      CLOSED, Controller, DefaultController, ERRORED, READABLE, Readable,
      acquireReadableStreamReader, cancelStream, createReadableStream, readableStreamCancel, readableStreamClose,
      readableStreamDefaultReaderRead, readableStreamReaderRelease,
    };
  });
})
