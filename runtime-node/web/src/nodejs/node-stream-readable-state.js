// node:stream: the state of a Readable, and the queue of a stream's chunks.
//: module
(function (internal) {
  "use strict";

  const { Set, SymbolIterator } = internal.primordials;

  internal.define("readableState", () => {
    const { defineHidden } = internal.node;
    const { beginLifecycle, exposeLifecycle, highWaterMark } = internal.use("streamShared");
    const { Buffer } = internal.use("buffer");
    const { StringDecoder } = internal.use("string_decoder");

    // The entries that have been taken are removed from the list when no others are left, or when
    // there are more of them than this number and they are more than half of the list.
    const SPENT = 1024;

    // A FIFO queue of chunks.
    class Queue {
      #list = [];
      #first = 0;
      get length() {
        return this.#list.length - this.#first;
      }
      add(chunk) {
        this.#list.push(chunk);
      }
      addFirst(chunk) {
        if (this.#first > 0) this.#list[--this.#first] = chunk;
        else this.#list.unshift(chunk);
      }
      first() {
        return this.#list[this.#first];
      }
      take() {
        const chunk = this.#list[this.#first];
        this.#list[this.#first++] = undefined;
        if (this.#first === this.#list.length || (this.#first > SPENT && this.#first > this.#list.length / 2)) {
          this.#list = this.#list.slice(this.#first);
          this.#first = 0;
        }
        return chunk;
      }
      takeAll() {
        const list = this.#list.slice(this.#first);
        this.#list = [];
        this.#first = 0;
        return list;
      }
      // Takes the first `n` bytes or code units.
      takeUnits(n) {
        const first = this.first();
        if (n < first.length) {
          this.#list[this.#first] = first.slice(n);
          return first.slice(0, n);
        }
        if (n === first.length) return this.take();
        const parts = [];
        for (let left = n; left > 0;) {
          const part = left < this.first().length ? this.takeUnits(left) : this.take();
          left -= part.length;
          parts.push(part);
        }
        return joined(parts);
      }
      [SymbolIterator]() {
        return this.#list.slice(this.#first)[SymbolIterator]();
      }
    }
    const joined = (parts) => (typeof parts[0] === "string" ? parts.join("") : Buffer.concat(parts));

    class ReadableState {
      constructor(options, stream, isDuplex) {
        defineHidden(this, { lifecycle: beginLifecycle(stream, options) });
        this.objectMode = !!(options?.objectMode || (isDuplex && options?.readableObjectMode));
        this.highWaterMark = highWaterMark(options, this.objectMode, "readableHighWaterMark", isDuplex);
        this.buffer = new Queue();
        this.length = 0;
        // null: there is no consumer yet; false: the stream is paused, or consumed by `read()`;
        // true: it flows.
        this.flowing = null;
        this.paused = false;
        this.readable = options?.readable !== false;
        this.ended = false;
        this.endEmitted = false;
        this.reading = false;
        this.sync = true;
        this.needReadable = false;
        this.emittedReadable = false;
        this.readableListening = false;
        this.resumeScheduled = false;
        this.readingMore = false;
        this.dataEmitted = false;
        this.pipes = [];
        // The piped destinations that have yet to emit `drain`.
        this.awaitDrainWriters = new Set();
        this.defaultEncoding = options?.defaultEncoding ?? "utf8";
        this.encoding = null;
        this.decoder = null;
        if (options?.encoding) {
          this.decoder = new StringDecoder(options.encoding);
          this.encoding = this.decoder.encoding;
        }
      }
      get pipesCount() {
        return this.pipes.length;
      }
    }
    exposeLifecycle(ReadableState);

    return { Queue, ReadableState, joined };
  });
})
