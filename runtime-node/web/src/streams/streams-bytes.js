// The controller of a byte stream (Streams §4.7, §4.10.11): a queue of pieces of buffers, and the
// readers' views that are to be filled.
//
// Buffers that a reader or a source passes in are transferred, so that the code that passed them
// cannot change bytes that other code has seen.
//: late, after streams-readable.js
(function (internal) {
  "use strict";

  const {
    ArrayBuffer, ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeGetDetached, ArrayBufferPrototypeTransfer,
    MathMin, RangeError, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;

  internal.later("streamsBytes", [], () => {
    const {
      CLOSED, Controller, ERRORED, READABLE, Readable, readableStreamClose,
    } = internal.streamsReadable();
    const { Queue } = internal.streamsBase();

    // The reader of a view: a BYOB reader, which supplied it; a default reader; or none after its
    // release.
    const BYOB = 0, DEFAULT = 1, NONE = 2;

    // A piece of a buffer in the queue.
    class Piece {
      buffer;
      offset;
      length;
      constructor(buffer, offset, length) {
        this.buffer = buffer;
        this.offset = offset;
        this.length = length;
      }
    }

    // A view to be filled: the pull-into descriptor of the standard.
    class PullIntoDescriptor {
      buffer;
      bufferLength;
      offset;
      length;
      bytesFilled = 0;
      // The number of bytes after which the view is returned.
      minimumFill;
      elementSize;
      View;
      reader;
      constructor(buffer, offset, length, minimumFill, elementSize, View, reader) {
        this.buffer = buffer;
        this.bufferLength = ArrayBufferPrototypeGetByteLength(buffer);
        this.offset = offset;
        this.length = length;
        this.minimumFill = minimumFill;
        this.elementSize = elementSize;
        this.View = View;
        this.reader = reader;
      }

      // Transfers the buffer. Returns a view of the filled part.
      convert() {
        const buffer = ArrayBufferPrototypeTransfer(this.buffer);
        return new this.View(buffer, this.offset, this.bytesFilled / this.elementSize);
      }
    }

    function copy(into, at, from, offset, length) {
      TypedArrayPrototypeSet(new Uint8Array(into, at, length), new Uint8Array(from, offset, length));
    }

    class ByteController extends Controller {
      bytes = true;
      pendingPullIntos = new Queue();
      // The record of `byobRequest`; null until first use.
      request = null;
      // The size, in bytes, of the view that the source gets for a read without a view; 0 if the
      // source gets none.
      allocate;

      constructor(stream, algorithms, self, highWaterMark, allocate) {
        super(stream, algorithms, self, highWaterMark);
        this.allocate = allocate;
      }

      get firstPendingPullInto() {
        return this.pendingPullIntos.first === null ? null : this.pendingPullIntos.first.value;
      }

      // Returns the bytes that the source may fill in place, or null if there are none.
      vacancy() {
        const first = this.firstPendingPullInto;
        return first === null ? null
          : new Uint8Array(first.buffer, first.offset + first.bytesFilled, first.length - first.bytesFilled);
      }

      invalidateBYOBRequest() {
        if (this.request === null) return;
        this.request.controller = this.request.view = null;
        this.request = null;
      }

      reset() {
        this.invalidateBYOBRequest();
        this.pendingPullIntos.clear();
        this.queue.clear();
      }

      // ---- Calls by the source, while the stream is open

      // Enqueues a part of a buffer that belongs to a Worker.
      transferAndEnqueue(buffer, offset, length) {
        this.enqueue(ArrayBufferPrototypeTransfer(buffer), offset, length);
      }

      // Enqueues a part of a buffer, which the stream owns from now on.
      enqueue(buffer, offset, length) {
        const first = this.firstPendingPullInto;
        if (first !== null) {
          if (ArrayBufferPrototypeGetDetached(first.buffer)) {
            throw new TypeError("The buffer of the view that is to be filled has been detached");
          }
          this.invalidateBYOBRequest();
          first.buffer = ArrayBufferPrototypeTransfer(first.buffer);
          if (first.reader === NONE) this.enqueueDetachedPullIntoToQueue(first);
        }
        const { reader } = this.stream;
        if (reader === null) {
          this.enqueueChunkToQueue(buffer, offset, length);
        } else if (reader.byob) {
          this.enqueueChunkToQueue(buffer, offset, length);
          this.commitPullIntoDescriptors(this.processPullIntoDescriptorsUsingQueue());
        } else {
          while (reader.requests.first !== null && this.queue.total > 0) {
            this.fillReadRequestFromQueue(reader.requests.shift());
          }
          if (reader.requests.first === null) {
            this.enqueueChunkToQueue(buffer, offset, length);
          } else {
            if (this.pendingPullIntos.first !== null) this.pendingPullIntos.shift();
            reader.requests.shift().chunk(new Uint8Array(buffer, offset, length));
          }
        }
        this.callPullIfNeeded();
      }

      close() {
        if (this.queue.total > 0) {
          this.closing = true;
          return;
        }
        const first = this.firstPendingPullInto;
        if (first !== null && first.bytesFilled % first.elementSize !== 0) {
          const error = new TypeError("The stream was closed in the middle of an element of the view to be filled");
          this.error(error);
          throw error;
        }
        this.clearAlgorithms();
        readableStreamClose(this.stream);
      }

      // Accepts bytes that the source has written to the first pending view, which must exist.
      respond(written) {
        const first = this.firstPendingPullInto;
        if (this.stream.state === CLOSED) {
          if (written !== 0) throw new TypeError("Only 0 bytes can be written into the view of a closed stream");
        } else if (written === 0) {
          throw new TypeError("Writing 0 bytes is possible only after the stream is closed: call close() first");
        } else if (first.bytesFilled + written > first.length) {
          throw new RangeError(`${written} bytes do not fit into the view`);
        }
        first.buffer = ArrayBufferPrototypeTransfer(first.buffer);
        this.respondInternal(first, written);
      }

      // Accepts bytes in a buffer other than the one that the source received.
      respondWithNewView({ buffer, offset, length }) {
        const first = this.firstPendingPullInto;
        if (this.stream.state === CLOSED) {
          if (length !== 0) throw new TypeError("Only 0 bytes can be written into the view of a closed stream");
        } else if (length === 0) {
          throw new TypeError("Writing 0 bytes is possible only after the stream is closed: call close() first");
        }
        if (first.offset + first.bytesFilled !== offset) throw new RangeError("The view has a different byte offset");
        if (first.bufferLength !== ArrayBufferPrototypeGetByteLength(buffer)) {
          throw new RangeError("The view's buffer has a different size");
        }
        if (first.bytesFilled + length > first.length) throw new RangeError(`${length} bytes do not fit into the view`);
        first.buffer = ArrayBufferPrototypeTransfer(buffer);
        this.respondInternal(first, length);
      }

      respondInternal(first, written) {
        this.invalidateBYOBRequest();
        if (this.stream.state === CLOSED) this.respondInClosedState(first);
        else this.respondInReadableState(first, written);
        this.callPullIfNeeded();
      }

      respondInClosedState(first) {
        if (first.reader === NONE) this.pendingPullIntos.shift();
        const { reader } = this.stream;
        if (reader === null || !reader.byob) return;
        const filled = new Queue();
        for (let i = reader.requests.length; i > 0; i--) filled.push(this.pendingPullIntos.shift(), 0, null);
        this.commitPullIntoDescriptors(filled);
      }

      respondInReadableState(first, written) {
        first.bytesFilled += written;
        if (first.reader === NONE) {
          this.enqueueDetachedPullIntoToQueue(first);
          this.commitPullIntoDescriptors(this.processPullIntoDescriptorsUsingQueue());
          return;
        }
        if (first.bytesFilled < first.minimumFill) return;
        this.pendingPullIntos.shift();
        const rest = first.bytesFilled % first.elementSize;
        if (rest > 0) this.enqueueClonedChunkToQueue(first.buffer, first.offset + first.bytesFilled - rest, rest);
        first.bytesFilled -= rest;
        const filled = this.processPullIntoDescriptorsUsingQueue();
        this.commitPullIntoDescriptor(first);
        this.commitPullIntoDescriptors(filled);
      }

      // ---- Calls by readers

      // Reads without a view.
      pullSteps(request) {
        if (this.queue.total > 0) return this.fillReadRequestFromQueue(request);
        if (this.allocate > 0) {
          let buffer;
          try {
            buffer = new ArrayBuffer(this.allocate);
          } catch (error) {
            return request.error(error);
          }
          const pending = new PullIntoDescriptor(buffer, 0, this.allocate, 1, 1, Uint8Array, DEFAULT);
          this.pendingPullIntos.push(pending, 0, null);
        }
        this.stream.reader.requests.push(request, 0, null);
        this.callPullIfNeeded();
      }

      // Reads into a view, which `into` describes: {buffer, offset, length, elementSize, View}.
      pullInto(into, minimumFill, request) {
        const { elementSize } = into;
        let buffer;
        try {
          buffer = ArrayBufferPrototypeTransfer(into.buffer);
        } catch (error) {
          return request.error(error);
        }
        const { offset, length, View } = into;
        const bytes = minimumFill * elementSize;
        const pending = new PullIntoDescriptor(buffer, offset, length, bytes, elementSize, View, BYOB);
        const { requests } = this.stream.reader;
        if (this.pendingPullIntos.first === null) {
          if (this.stream.state === CLOSED) return request.close(new View(buffer, offset, 0));
          if (this.queue.total > 0) {
            if (this.fillPullIntoDescriptorFromQueue(pending)) {
              const view = pending.convert();
              this.handleQueueDrain();
              return request.chunk(view);
            }
            if (this.closing) {
              const error = new TypeError("The stream ended in the middle of an element of the view to be filled");
              this.error(error);
              return request.error(error);
            }
          }
          this.pendingPullIntos.push(pending, 0, null);
          requests.push(request, 0, null);
          this.callPullIfNeeded();
        } else {
          this.pendingPullIntos.push(pending, 0, null);
          requests.push(request, 0, null);
        }
      }

      // Releases the reader. The first view remains, because the source may still hold it.
      releaseSteps() {
        const first = this.firstPendingPullInto;
        if (first === null) return;
        first.reader = NONE;
        this.pendingPullIntos.clear();
        this.pendingPullIntos.push(first, 0, null);
      }

      // ---- The queue

      enqueueChunkToQueue(buffer, offset, length) {
        this.queue.push(new Piece(buffer, offset, length), length, null);
      }

      enqueueClonedChunkToQueue(buffer, offset, length) {
        let clone;
        try {
          clone = new Uint8Array(new Uint8Array(buffer, offset, length));
        } catch (error) {
          this.error(error);
          throw error;
        }
        this.enqueueChunkToQueue(TypedArrayPrototypeGetBuffer(clone), 0, length);
      }

      // Moves the bytes in the view of a released reader to the queue.
      enqueueDetachedPullIntoToQueue(first) {
        if (first.bytesFilled > 0) this.enqueueClonedChunkToQueue(first.buffer, first.offset, first.bytesFilled);
        this.pendingPullIntos.shift();
      }

      fillReadRequestFromQueue(request) {
        const { buffer, offset, length } = this.queue.shift();
        this.handleQueueDrain();
        request.chunk(new Uint8Array(buffer, offset, length));
      }

      handleQueueDrain() {
        if (this.queue.total === 0 && this.closing) {
          this.clearAlgorithms();
          readableStreamClose(this.stream);
        } else {
          this.callPullIfNeeded();
        }
      }

      // Fills a view from the queue. Returns whether the view holds at least its `minimumFill`.
      fillPullIntoDescriptorFromQueue(pending) {
        const { queue } = this;
        const most = pending.bytesFilled + MathMin(queue.total, pending.length - pending.bytesFilled);
        const aligned = most - most % pending.elementSize;
        const ready = aligned >= pending.minimumFill;
        let left = (ready ? aligned : most) - pending.bytesFilled;
        while (left > 0) {
          const entry = queue.first;
          const piece = entry.value;
          const length = MathMin(left, piece.length);
          copy(pending.buffer, pending.offset + pending.bytesFilled, piece.buffer, piece.offset, length);
          if (length === piece.length) {
            queue.shift();
          } else {
            piece.offset += length;
            entry.size = piece.length -= length;
            queue.total -= length;
          }
          pending.bytesFilled += length;
          left -= length;
        }
        return ready;
      }

      // Takes the pending views that the queue can fill, in order.
      processPullIntoDescriptorsUsingQueue() {
        const filled = new Queue();
        while (
          this.pendingPullIntos.first !== null && this.queue.total > 0 &&
          this.fillPullIntoDescriptorFromQueue(this.firstPendingPullInto)
        ) {
          filled.push(this.pendingPullIntos.shift(), 0, null);
        }
        return filled;
      }

      commitPullIntoDescriptor(pending) {
        const { reader, state } = this.stream;
        // A Worker's getter may have run in between.
        if (state === ERRORED || reader === null || reader.requests.first === null) return;
        const view = pending.convert();
        const request = reader.requests.shift();
        if (state === CLOSED) request.close(view);
        else request.chunk(view);
      }

      commitPullIntoDescriptors(filled) {
        for (let entry = filled.first; entry !== null; entry = entry.next) this.commitPullIntoDescriptor(entry.value);
      }
    }

    // Creates a byte stream with built-in algorithms. The stream owns the buffers that they
    // enqueue.
    function createReadableByteStream({
      start = null, pull = null, cancel = null, highWaterMark = 0, autoAllocateChunkSize = 0,
    }) {
      const stream = new Readable();
      const algorithms = { __proto__: null, pull, cancel };
      new ByteController(stream, algorithms, undefined, highWaterMark, autoAllocateChunkSize).start(start);
      return stream;
    }

    function readableStreamBYOBReaderRead(reader, into, minimumFill, request) {
      const { stream } = reader;
      stream.disturbed = true;
      if (stream.state === ERRORED) request.error(stream.error);
      else stream.controller.pullInto(into, minimumFill, request);
    }

    return { __proto__: null, ByteController, READABLE, createReadableByteStream, readableStreamBYOBReaderRead };
  });
})
