// CompressionStream and DecompressionStream (Compression §4, §5).
//
// Native code consumes and produces a bounded amount of data per call. If the output of a chunk
// exceeds `AHEAD` bytes, the rest is produced as the readable side demands it, so that the output
// need not fit into memory as a whole.
//: late, after streams-transform.js
(function (internal) {
  "use strict";

  const {
    FinalizationRegistry, FinalizationRegistryPrototypeRegister, FinalizationRegistryPrototypeUnregister, MathFloor,
    RangeError, TypeError, TypedArrayPrototypeGetByteLength, Uint8Array,
  } = internal.primordials;
  const { bufferSource, enumeration, expose, isObject, needs } = internal.webidl;

  internal.later("streamsCompression", ["CompressionStream", "DecompressionStream"], () => {
    const { LATER } = internal.streamsBase();
    const { READABLE } = internal.streamsReadable();
    const { ERRORING } = internal.streamsWritable();
    const { createTransformStream } = internal.streamsTransform();
    const { wrap: wrapReadable } = internal.streamsReadableApi();
    const { wrap: wrapWritable } = internal.streamsWritableApi();

    const FORMATS = ["brotli", "deflate", "deflate-raw", "gzip"];
    // Statuses of `codecPush`: the codec needs more input, has more output, is at its end, has
    // found invalid data, or has run out of memory.
    const WANTS_MORE = 0, HAS_MORE = 1, ENDED = 2, INVALID = 3, NO_MEMORY = 4;

    // The number of bytes of a chunk's output that the codec may produce ahead of the reader. A
    // program that awaits each write before it reads works if the output of each chunk is at most
    // this large.
    const AHEAD = 2 ** 23;

    const NONE = new Uint8Array(0);

    // A registry that closes the native codec of a stream that is collected before its end. It is
    // created on first use, because a snapshot cannot contain a FinalizationRegistry.
    let registry;

    class Codec {
      what;
      decompress;
      // The number of the native codec; 0 once it is closed.
      id;
      transform;
      // The current chunk, the position of its unread part, and the number of bytes of its output
      // that are ahead of the reader.
      bytes = NONE;
      at = 0;
      ahead = 0;
      // `more`: the codec has output that needs no further input; `ended`: it is at its end.
      more = false;
      ended = false;

      constructor(what, format, decompress) {
        this.what = what;
        this.decompress = decompress;
        this.id = internal.ops.codecOpen(enumeration(format, FORMATS, what), decompress);
        if (this.id === 0) throw new RangeError(`${what}: the codec does not fit into the Worker's memory`);
        registry ??= new FinalizationRegistry((id) => internal.ops.codecClose(id));
        FinalizationRegistryPrototypeRegister(registry, this, this.id, this);
        this.transform = createTransformStream({
          __proto__: null,
          transform: (chunk) => this.write(chunk),
          flush: () => this.flush(),
          cancel: () => this.close(),
        });
      }

      close() {
        if (this.id === 0) return;
        internal.ops.codecClose(this.id);
        FinalizationRegistryPrototypeUnregister(registry, this);
        this.id = 0;
      }

      write(chunk) {
        const bytes = bufferSource(chunk);
        if (bytes === null) {
          this.close();
          throw new TypeError(`${this.what}: a chunk is neither an ArrayBuffer nor a view of one`);
        }
        this.bytes = bytes;
        this.at = this.ahead = 0;
        return this.run(false);
      }

      flush() {
        if (this.decompress && !this.ended) {
          this.close();
          throw new TypeError(`${this.what}: the compressed data ends too early`);
        }
        if (!this.ended) this.run(true);
        this.close();
      }

      // Processes the current chunk until its output is too far ahead of the reader.
      run(last) {
        const { transform } = this;
        for (;;) {
          if (this.ended) {
            if (this.at < TypedArrayPrototypeGetByteLength(this.bytes)) {
              throw new TypeError(`${this.what}: data follows the end of the compressed data`);
            }
            break;
          }
          // A Worker's getter may have canceled the stream.
          if (this.id === 0) throw new TypeError(`${this.what}: the stream has been canceled`);
          if (!last && this.at >= TypedArrayPrototypeGetByteLength(this.bytes) && !this.more) break;
          const status = this.push(last);
          if (status === WANTS_MORE && last) throw new TypeError(`${this.what}: the compressed data has no end`);
          if (!last && this.ahead >= AHEAD && transform.backpressure) {
            transform.waiting = this.resume;
            return LATER;
          }
        }
        this.bytes = NONE;
        this.at = 0;
        return undefined;
      }

      push(last) {
        // Status + 8 · (bytes read + 2²⁰ · bytes produced)
        const done = internal.ops.codecPush(this.id, this.bytes, this.at, last);
        const status = done % 8;
        const rest = MathFloor(done / 8);
        this.at += rest % 2 ** 20;
        const made = MathFloor(rest / 2 ** 20);
        if (status === INVALID || status === NO_MEMORY) {
          this.close();
          throw status === INVALID ? new TypeError(`${this.what}: the data is not in this format`)
            : new RangeError(`${this.what}: the codec does not fit into the Worker's memory`);
        }
        this.more = status === HAS_MORE;
        if (made > 0) {
          const piece = new Uint8Array(made);
          internal.ops.codecTake(piece);
          this.ahead += made;
          this.transform.enqueue(piece);
        }
        if (status === ENDED) {
          this.ended = true;
          this.close();
        }
        return status;
      }

      // Continues when the reader wants more; closes the codec if the stream has ended.
      resume = () => {
        const { readable, writable } = this.transform;
        if (writable.state === ERRORING || readable.state !== READABLE) {
          this.close();
          this.transform.failed(writable.state === ERRORING ? writable.error : undefined);
          return;
        }
        this.ahead = 0;
        let going;
        try {
          going = this.run(false);
        } catch (error) {
          this.close();
          this.transform.failed(error);
          return;
        }
        if (going !== LATER) writable.controller.written();
      };
    }

    let isCompression;
    let isDecompression;

    class CompressionStream {
      #transform;

      static {
        isCompression = (value) => isObject(value) && #transform in value;
      }

      constructor(format) {
        needs(arguments.length, 1, "CompressionStream");
        this.#transform = new Codec("CompressionStream", format, false).transform;
      }

      get readable() {
        return wrapReadable(this.#transform.readable);
      }

      get writable() {
        return wrapWritable(this.#transform.writable);
      }
    }
    expose(CompressionStream);

    class DecompressionStream {
      #transform;

      static {
        isDecompression = (value) => isObject(value) && #transform in value;
      }

      constructor(format) {
        needs(arguments.length, 1, "DecompressionStream");
        this.#transform = new Codec("DecompressionStream", format, true).transform;
      }

      get readable() {
        return wrapReadable(this.#transform.readable);
      }

      get writable() {
        return wrapWritable(this.#transform.writable);
      }
    }
    expose(DecompressionStream);

    internal.describe("CompressionStream", (value) => isCompression(value), CompressionStream, ["readable", "writable"]);
    internal.describe("DecompressionStream", (value) => isDecompression(value), DecompressionStream, ["readable", "writable"]);
    return { CompressionStream, DecompressionStream };
  });
})
