// pipeTo and pipeThrough (Streams §4.9.1, ReadableStreamPipeTo).
//
// A chunk costs no more than the operations of the two streams: the pipe is its own read request
// and write request, so that only a Worker's source and sink need promises. The pipe continues when
// the sink has finished a chunk. It also continues when a chunk arrives, but only in the next
// microtask, because the source's `enqueue` must not call the sink.
//: late, after streams-readable.js streams-writable-api.js
(function (internal) {
  "use strict";

  const { PromiseReject, PromiseWithResolvers, TypeError } = internal.primordials;
  const { dictionary } = internal.webidl;

  internal.later("streamsPipe", [], () => {
    const { nothing, react, soon } = internal.streamsBase();
    const readable = internal.streamsReadable();
    const writable = internal.streamsWritable();
    const { isWritable, streamOf: writableOf } = internal.streamsWritableApi();

    // Returns a promise that is fulfilled when both values are fulfilled.
    function both(first, second) {
      const { promise, resolve, reject } = PromiseWithResolvers();
      let left = 2;
      const done = () => {
        if (--left === 0) resolve();
      };
      const fail = (reason) => reject(reason);
      react(first, done, fail);
      react(second, done, fail);
      return promise;
    }

    // A pipe, which serves as the request of its reads and writes.
    class Pipe {
      source;
      destination;
      reader;
      writer;
      capability = PromiseWithResolvers();
      shuttingDown = false;
      // `reading`: a read is in progress; `within`: `step` is starting it; `ended`: nothing is left
      // to read.
      reading = false;
      within = false;
      ended = false;
      // A chunk that has been read but not written.
      chunkRead = undefined;
      hasChunk = false;
      // The number of unfinished writes, and the action to run after the last one.
      unwritten = 0;
      whenWritten = null;
      forgetSignal = null;

      constructor(source, destination) {
        this.source = source;
        this.destination = destination;
        this.reader = readable.acquireReadableStreamReader(source, false);
        this.writer = writable.acquireWritableStreamDefaultWriter(destination);
        this.writer.hasRoom = this.step;
        source.disturbed = true;
      }

      // ---- Reads

      chunk(value) {
        this.reading = false;
        this.chunkRead = value;
        this.hasChunk = true;
        if (!this.within) soon(this.arrived);
      }

      // The reader's `closed` promise reports the end of the source.
      close() {
        this.reading = false;
        this.ended = true;
      }

      error() {
        this.close();
      }

      arrived = () => {
        this.forward();
        this.step();
      };

      step = () => {
        const { destination } = this;
        while (
          !this.shuttingDown && !this.reading && !this.ended && !this.hasChunk && !destination.backpressure &&
          destination.state === writable.WRITABLE
        ) {
          this.reading = this.within = true;
          readable.readableStreamDefaultReaderRead(this.reader, this);
          this.within = false;
          this.forward();
        }
      };

      // ---- Writes

      forward() {
        // There may be no chunk, or the writer may have been released.
        if (!this.hasChunk || this.writer.stream === null) return;
        const chunk = this.chunkRead;
        this.chunkRead = undefined;
        this.hasChunk = false;
        this.unwritten++;
        if (writable.writableStreamDefaultWriterWrite(this.writer, chunk, this) !== null) this.resolve();
      }

      resolve() {
        this.unwritten--;
        if (this.unwritten > 0 || this.whenWritten === null) return;
        soon(this.whenWritten);
        this.whenWritten = null;
      }

      reject() {
        this.resolve();
      }

      // ---- Shutdown

      watch({ preventAbort, preventCancel, preventClose }) {
        const { destination, source } = this;

        const sourceErrored = () => {
          const abort = () => writable.writableStreamAbort(destination, source.error);
          this.shutdown(preventAbort ? null : abort, true, source.error);
        };
        const destinationErrored = () => this.cancelSource(preventCancel, destination.error);
        const close = () => this.writerCloseWithErrorPropagation();
        const sourceClosed = () => this.shutdown(preventClose ? null : close, false, undefined);

        if (source.state === readable.ERRORED) sourceErrored();
        if (destination.state === writable.ERRORED) destinationErrored();
        if (source.state === readable.CLOSED) sourceClosed();
        if (destination.closeQueuedOrInFlight || destination.state === writable.CLOSED) {
          this.cancelSource(preventCancel, new TypeError("The destination of a pipe was closed before its source"));
        }
        if (this.shuttingDown) return;
        react(this.reader.closed.promise, sourceClosed, sourceErrored);
        react(this.writer.closed.promise, nothing, destinationErrored);
      }

      followSignal(signal, { preventAbort, preventCancel }) {
        const { abortReason, isAborted, onAbort } = internal.abort();
        const { destination, source } = this;
        const aborted = () => {
          const reason = abortReason(signal);
          this.shutdown(() => both(
            preventAbort || destination.state !== writable.WRITABLE ? undefined
              : writable.writableStreamAbort(destination, reason),
            preventCancel || source.state !== readable.READABLE ? undefined : readable.cancelStream(source, reason),
          ), true, reason);
        };
        if (isAborted(signal)) aborted();
        else this.forgetSignal = onAbort(signal, aborted);
      }

      cancelSource(preventCancel, reason) {
        this.shutdown(preventCancel ? null : () => readable.cancelStream(this.source, reason), true, reason);
      }

      writerCloseWithErrorPropagation() {
        const { destination } = this;
        if (destination.closeQueuedOrInFlight || destination.state === writable.CLOSED) return undefined;
        if (destination.state === writable.ERRORED) return PromiseReject(destination.error);
        return writable.writableStreamClose(destination);
      }

      // Stops reading. Runs `action`, unless it is null, once all chunks that have been read are
      // written.
      shutdown(action, failed, reason) {
        if (this.shuttingDown) return;
        this.shuttingDown = true;
        const runAction = () => {
          if (action === null) return this.finish(failed, reason);
          react(action(), () => this.finish(failed, reason), (error) => this.finish(true, error));
        };
        const { destination } = this;
        if (destination.state === writable.WRITABLE && !destination.closeQueuedOrInFlight) {
          this.forward();
          if (this.unwritten > 0) {
            this.whenWritten = runAction;
            return;
          }
        }
        runAction();
      }

      finish(failed, reason) {
        writable.writableStreamDefaultWriterRelease(this.writer);
        readable.readableStreamReaderRelease(this.reader);
        if (this.forgetSignal !== null) this.forgetSignal();
        if (failed) this.capability.reject(reason);
        else this.capability.resolve();
      }
    }

    // Pipes between two streams that are not locked. Returns a promise of undefined.
    function readableStreamPipeTo(source, destination, how) {
      const pipe = new Pipe(source, destination);
      if (how.signal !== undefined) pipe.followSignal(how.signal, how);
      if (!pipe.shuttingDown) pipe.watch(how);
      pipe.step();
      return pipe.capability.promise;
    }

    // Converts a StreamPipeOptions, as Web IDL does.
    function pipeOptions(options, what) {
      const given = dictionary(options, what);
      const preventAbort = !!given.preventAbort;
      const preventCancel = !!given.preventCancel;
      const preventClose = !!given.preventClose;
      const { signal } = given;
      if (signal !== undefined && !internal.abort().isAbortSignal(signal)) {
        throw new TypeError(`${what}: the signal is not an AbortSignal`);
      }
      return { __proto__: null, preventAbort, preventCancel, preventClose, signal };
    }

    return { __proto__: null, isWritable, pipeOptions, readableStreamPipeTo, writableOf };
  });
})
