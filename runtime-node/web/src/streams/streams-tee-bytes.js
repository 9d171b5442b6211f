// tee() of a byte stream (Streams §4.9.1, ReadableByteStreamTee). The stream itself fills the views
// of either branch's reader, and the other branch receives a copy.
//: late, after streams-bytes.js
(function (internal) {
  "use strict";

  const {
    PromiseWithResolvers, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
    Uint8Array,
  } = internal.primordials;

  internal.later("streamsTeeBytes", [], () => {
    const { nothing, react, soon } = internal.streamsBase();
    const {
      acquireReadableStreamReader, cancelStream, readableStreamDefaultReaderRead,
      readableStreamReaderRelease,
    } = internal.streamsReadable();
    const { createReadableByteStream, readableStreamBYOBReaderRead } = internal.streamsBytes();

    // One of the two streams.
    class Branch {
      tee;
      stream;
      canceled = false;
      reason = undefined;
      // Set if the branch pulls while a read is in progress.
      readAgain = false;
      other = null;
      constructor(tee) {
        this.tee = tee;
        const cancel = (reason) => tee.cancel(this, reason);
        this.stream = createReadableByteStream({ __proto__: null, pull: () => tee.pull(this), cancel });
      }

      get controller() {
        return this.stream.controller;
      }

      enqueue(view) {
        if (this.controller.canCloseOrEnqueue) {
          this.controller.enqueue(
            TypedArrayPrototypeGetBuffer(view), TypedArrayPrototypeGetByteOffset(view), TypedArrayPrototypeGetByteLength(view),
          );
        }
      }

      close() {
        if (this.controller.canCloseOrEnqueue) this.controller.close();
      }

      // At the end of the stream, returns a pending view to its reader without filling the view.
      respondZero() {
        if (this.controller.firstPendingPullInto !== null) this.controller.respond(0);
      }
    }

    class Tee {
      stream;
      reader;
      reading = false;
      first;
      second;
      cancellation = PromiseWithResolvers();

      constructor(stream) {
        this.stream = stream;
        this.reader = acquireReadableStreamReader(stream, false);
        this.first = new Branch(this);
        this.second = new Branch(this);
        this.first.other = this.second;
        this.second.other = this.first;
        this.forwardError();
      }

      // Forwards errors of the current reader.
      forwardError() {
        const { reader } = this;
        react(reader.closed.promise, nothing, (reason) => {
          if (reader !== this.reader) return;
          this.first.controller.error(reason);
          this.second.controller.error(reason);
          this.resolveUnlessCanceled();
        });
      }

      // Resolves the promises of `cancel`, unless both branches have been canceled.
      resolveUnlessCanceled() {
        if (!this.first.canceled || !this.second.canceled) this.cancellation.resolve();
      }

      // Replaces the reader if the next read needs a reader of the other kind.
      readBy(byob) {
        if (this.reader.byob === byob) return;
        readableStreamReaderRelease(this.reader);
        this.reader = acquireReadableStreamReader(this.stream, byob);
        this.forwardError();
      }

      pull(branch) {
        if (this.reading) {
          branch.readAgain = true;
          return;
        }
        this.reading = true;
        const { controller } = branch;
        const view = controller.vacancy();
        // `view` is the first pending view, as `byobRequest` would expose it, even if its reader
        // has been released.
        if (view === null) this.readDefault();
        else this.readView(branch, view);
      }

      pullAgain() {
        this.reading = false;
        if (this.first.readAgain) this.pull(this.first);
        else if (this.second.readAgain) this.pull(this.second);
      }

      readDefault() {
        this.readBy(false);
        readableStreamDefaultReaderRead(this.reader, new DefaultRequest(this));
      }

      readView(branch, view) {
        this.readBy(true);
        const into = {
          __proto__: null,
          buffer: TypedArrayPrototypeGetBuffer(view),
          offset: TypedArrayPrototypeGetByteOffset(view),
          length: TypedArrayPrototypeGetByteLength(view),
          elementSize: 1,
          View: Uint8Array,
        };
        readableStreamBYOBReaderRead(this.reader, into, 1, new ViewRequest(this, branch));
      }

      fail(error) {
        this.first.controller.error(error);
        this.second.controller.error(error);
        this.cancelStream(error);
      }

      cancelStream(reason) {
        react(cancelStream(this.stream, reason), () => this.cancellation.resolve(), (e) => this.cancellation.reject(e));
      }

      cancel(branch, reason) {
        branch.canceled = true;
        branch.reason = reason;
        if (branch.other.canceled) this.cancelStream([this.first.reason, this.second.reason]);
        return this.cancellation.promise;
      }
    }

    class DefaultRequest {
      tee;
      constructor(tee) {
        this.tee = tee;
      }

      chunk(view) {
        const { tee } = this;
        const { first, second } = tee;
        soon(() => {
          first.readAgain = second.readAgain = false;
          let copy = view;
          if (!first.canceled && !second.canceled) {
            try {
              copy = new Uint8Array(view);
            } catch (error) {
              return tee.fail(error);
            }
          }
          if (!first.canceled) first.enqueue(view);
          if (!second.canceled) second.enqueue(copy);
          tee.pullAgain();
        });
      }

      close() {
        const { tee } = this;
        const { first, second } = tee;
        tee.reading = false;
        if (!first.canceled) first.close();
        if (!second.canceled) second.close();
        first.respondZero();
        second.respondZero();
        tee.resolveUnlessCanceled();
      }

      error() {
        this.tee.reading = false;
      }
    }

    class ViewRequest {
      tee;
      branch;
      constructor(tee, branch) {
        this.tee = tee;
        this.branch = branch;
      }

      chunk(view) {
        const { branch, tee } = this;
        const { other } = branch;
        soon(() => {
          tee.first.readAgain = tee.second.readAgain = false;
          let copy = null;
          if (!other.canceled) {
            try {
              copy = new Uint8Array(view);
            } catch (error) {
              return tee.fail(error);
            }
          }
          if (!branch.canceled) this.returnView(view);
          if (copy !== null) other.enqueue(copy);
          tee.pullAgain();
        });
      }

      close(view) {
        const { branch, tee } = this;
        const { other } = branch;
        tee.reading = false;
        if (!branch.canceled) branch.close();
        if (!other.canceled) other.close();
        if (view !== undefined) {
          if (!branch.canceled) this.returnView(view);
          if (!other.canceled) other.respondZero();
        }
        tee.resolveUnlessCanceled();
      }

      error() {
        this.tee.reading = false;
      }

      // Returns the filled view to the branch's reader.
      returnView(view) {
        this.branch.controller.respondWithNewView({
          __proto__: null,
          buffer: TypedArrayPrototypeGetBuffer(view),
          offset: TypedArrayPrototypeGetByteOffset(view),
          length: TypedArrayPrototypeGetByteLength(view),
        });
      }
    }

    function readableByteStreamTee(stream) {
      const { first, second } = new Tee(stream);
      return { __proto__: null, first: first.stream, second: second.stream };
    }

    return { __proto__: null, readableByteStreamTee };
  });
})
