// pipeTo and pipeThrough (Streams §4.9.1, ReadableStreamPipeTo).
//
// What both ends do by themselves is all that happens to a chunk: a pipe reads by a request of its own and writes without
// asking for a promise, so that only a Worker's source and sink cost any. It goes on when the sink is done with a chunk, or
// a microtask after one has come: enqueueing must not write.
(function (internal) {
  "use strict";

  const { PromiseReject, PromiseWithResolvers, TypeError } = internal.primordials;
  const { dictionary } = internal.webidl;

  internal.later("streamsPipe", [], () => {
    const { nothing, react, soon } = internal.streamsBase();
    const readable = internal.streamsReadable();
    const writable = internal.streamsWritable();
    const { isWritable, streamOf: writableOf } = internal.streamsWritableApi();

    // Both must be fulfilled.
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

    // It is the request of its reads, and of its writes.
    class Pipe {
      source;
      destination;
      reader;
      writer;
      capability = PromiseWithResolvers();
      shuttingDown = false;
      // A read is under way; it is the one that `step` is just making; there will be nothing more to read.
      reading = false;
      within = false;
      ended = false;
      // What has been read and not written.
      chunkRead = undefined;
      hasChunk = false;
      // Chunks that the sink is not done with, and what is to be done when it is.
      unwritten = 0;
      whenWritten = null;
      forgetSignal = null;

      constructor(source, destination) {
        this.source = source;
        this.destination = destination;
        this.reader = readable.acquire(source, false);
        this.writer = writable.acquire(destination);
        this.writer.hasRoom = this.step;
        source.disturbed = true;
      }

      // ---- What is read

      chunk(value) {
        this.reading = false;
        this.chunkRead = value;
        this.hasChunk = true;
        if (!this.within) soon(this.arrived);
      }

      // That the source is at its end the promise of its reader tells.
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
          readable.read(this.reader, this);
          this.within = false;
          this.forward();
        }
      };

      // ---- What is written

      forward() {
        // Once it is released there is nobody to write to.
        if (!this.hasChunk || this.writer.stream === null) return;
        const chunk = this.chunkRead;
        this.chunkRead = undefined;
        this.hasChunk = false;
        this.unwritten++;
        if (writable.write(this.writer, chunk, this) !== null) this.resolve();
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

      // ---- How it ends

      watch({ preventAbort, preventCancel, preventClose }) {
        const { destination, source } = this;

        const sourceErrored = () => {
          this.shutdown(preventAbort ? null : () => writable.abort(destination, source.error), true, source.error);
        };
        const destinationErrored = () => this.cancelSource(preventCancel, destination.error);
        const sourceClosed = () => this.shutdown(preventClose ? null : () => this.closeDestination(), false, undefined);

        if (source.state === readable.ERRORED) sourceErrored();
        if (destination.state === writable.ERRORED) destinationErrored();
        if (source.state === readable.CLOSED) sourceClosed();
        if (destination.isClosing || destination.state === writable.CLOSED) {
          this.cancelSource(preventCancel, new TypeError("The destination of a pipe was closed before its source"));
        }
        if (this.shuttingDown) return;
        react(this.reader.closed.promise, sourceClosed, sourceErrored);
        react(this.writer.closed.promise, nothing, destinationErrored);
      }

      heed(signal, { preventAbort, preventCancel }) {
        const { abortReason, isAborted, onAbort } = internal.abort();
        const { destination, source } = this;
        const aborted = () => {
          const reason = abortReason(signal);
          this.shutdown(() => both(
            preventAbort || destination.state !== writable.WRITABLE ? undefined : writable.abort(destination, reason),
            preventCancel || source.state !== readable.READABLE ? undefined : readable.cancelStream(source, reason),
          ), true, reason);
        };
        if (isAborted(signal)) aborted();
        else this.forgetSignal = onAbort(signal, aborted);
      }

      cancelSource(preventCancel, reason) {
        this.shutdown(preventCancel ? null : () => readable.cancelStream(this.source, reason), true, reason);
      }

      closeDestination() {
        const { destination } = this;
        if (destination.isClosing || destination.state === writable.CLOSED) return undefined;
        if (destination.state === writable.ERRORED) return PromiseReject(destination.error);
        return writable.close(destination);
      }

      // Stops reading, and when all that was read has been written does `action`, unless that is null.
      shutdown(action, failed, reason) {
        if (this.shuttingDown) return;
        this.shuttingDown = true;
        const act = () => {
          if (action === null) return this.finish(failed, reason);
          react(action(), () => this.finish(failed, reason), (error) => this.finish(true, error));
        };
        const { destination } = this;
        if (destination.state === writable.WRITABLE && !destination.isClosing) {
          this.forward();
          if (this.unwritten > 0) {
            this.whenWritten = act;
            return;
          }
        }
        act();
      }

      finish(failed, reason) {
        writable.release(this.writer);
        readable.release(this.reader);
        if (this.forgetSignal !== null) this.forgetSignal();
        if (failed) this.capability.reject(reason);
        else this.capability.resolve();
      }
    }

    // A promise of undefined. Neither stream is locked.
    function pipe(source, destination, how) {
      const pipe = new Pipe(source, destination);
      if (how.signal !== undefined) pipe.heed(how.signal, how);
      if (!pipe.shuttingDown) pipe.watch(how);
      pipe.step();
      return pipe.capability.promise;
    }

    // As Web IDL converts a StreamPipeOptions.
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

    return { __proto__: null, isWritable, pipe, pipeOptions, writableOf };
  });
})
