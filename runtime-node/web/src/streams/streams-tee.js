// tee() of a default stream (Streams §4.9.1, ReadableStreamDefaultTee).
//: late, after streams-readable.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, PromiseWithResolvers, TypedArrayPrototypeGetSymbolToStringTag, Uint8Array,
  } = internal.primordials;

  internal.later("streamsTee", [], () => {
    const { nothing, react, soon } = internal.streamsBase();
    const {
      acquireReadableStreamReader, cancelStream, createReadableStream,
      readableStreamDefaultReaderRead,
    } = internal.streamsReadable();

    // Both branches, and the read request of the stream.
    class Tee {
      stream;
      reader;
      // Set if the second branch receives copies of bytes.
      clone;
      reading = false;
      readAgain = false;
      // A chunk that has been read but not delivered.
      chunkRead = undefined;
      first;
      second;
      canceled = [false, false];
      reasons = [undefined, undefined];
      cancellation = PromiseWithResolvers();

      constructor(stream, clone) {
        this.stream = stream;
        this.clone = clone;
        this.reader = acquireReadableStreamReader(stream, false);
        const pull = () => this.pull();
        const branch = (which) => createReadableStream({ __proto__: null, pull, cancel: (reason) => this.cancel(which, reason) });
        this.first = branch(0);
        this.second = branch(1);
        react(this.reader.closed.promise, nothing, (reason) => {
          this.first.controller.error(reason);
          this.second.controller.error(reason);
          if (!this.canceled[0] || !this.canceled[1]) this.cancellation.resolve();
        });
      }

      pull() {
        if (this.reading) {
          this.readAgain = true;
          return;
        }
        this.reading = true;
        readableStreamDefaultReaderRead(this.reader, this);
      }

      // Delivers the chunk in a microtask: the detection of an error takes a microtask as well, and
      // no chunk must overtake an error.
      chunk(value) {
        this.chunkRead = value;
        soon(this.deliver);
      }

      deliver = () => {
        const value = this.chunkRead;
        this.chunkRead = undefined;
        this.readAgain = false;
        let copy = value;
        try {
          if (this.clone) copy = copyOf(value);
        } catch (error) {
          this.first.controller.error(error);
          this.second.controller.error(error);
          react(cancelStream(this.stream, error), () => this.cancellation.resolve(), (e) => this.cancellation.reject(e));
          return;
        }
        if (!this.canceled[0]) enqueue(this.first, value);
        if (!this.canceled[1]) enqueue(this.second, copy);
        this.reading = false;
        if (this.readAgain) this.pull();
      };

      close() {
        this.reading = false;
        if (!this.canceled[0]) close(this.first);
        if (!this.canceled[1]) close(this.second);
        if (!this.canceled[0] || !this.canceled[1]) this.cancellation.resolve();
      }

      error() {
        this.reading = false;
      }

      cancel(which, reason) {
        this.canceled[which] = true;
        this.reasons[which] = reason;
        if (this.canceled[1 - which]) {
          // The source receives a new array, because it may keep or change what it receives.
          const reasons = [this.reasons[0], this.reasons[1]];
          react(cancelStream(this.stream, reasons), () => this.cancellation.resolve(), (e) => this.cancellation.reject(e));
        }
        return this.cancellation.promise;
      }
    }

    function enqueue({ controller }, chunk) {
      if (controller.canCloseOrEnqueue) controller.enqueue(chunk);
    }

    function close({ controller }) {
      if (controller.canCloseOrEnqueue) controller.close();
    }

    // Copies a chunk of bytes, such as the chunks of a body, so that a reader of one branch cannot
    // change the bytes of the other branch.
    function copyOf(value) {
      return ArrayBufferIsView(value) && TypedArrayPrototypeGetSymbolToStringTag(value) === "Uint8Array"
        ? new Uint8Array(value) : value;
    }

    function readableStreamDefaultTee(stream, clone) {
      const { first, second } = new Tee(stream, clone);
      return { __proto__: null, first, second };
    }

    return { __proto__: null, readableStreamDefaultTee };
  });
})
