// Byte streams that Cloudflare Workers add to the standard: IdentityTransformStream, which
// passes bytes unchanged; FixedLengthStream, which also checks the number of bytes; and
// `crypto.DigestStream`, which hashes the bytes that are written to it.
//: late, after encoding.js streams-transform.js
(function (internal) {
  "use strict";

  const {
    FinalizationRegistry, FinalizationRegistryPrototypeRegister, FinalizationRegistryPrototypeUnregister, MathMin, Number,
    NumberMAX_SAFE_INTEGER, PromiseWithResolvers, StringPrototypeToLowerCase, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, Uint8Array, WeakMapPrototypeSet,
  } = internal.primordials;
  const { DOMString, bufferSource, enforced, expose, isObject, needs } = internal.webidl;
  const { ops } = internal;

  const bytesOf = (chunk, what) => {
    const bytes = isObject(chunk) ? bufferSource(chunk) : null;
    if (bytes === null) throw new TypeError(`${what}: a chunk is neither an ArrayBuffer nor a view of one`);
    return bytes;
  };

  internal.later("workersTransforms", ["FixedLengthStream", "IdentityTransformStream"], () => {
    const { WRAP, highWaterMarkOf, strategy: strategyOf } = internal.streamsBase();
    const { Transform } = internal.streamsTransform();
    const { TransformStream, recordOf } = internal.streamsTransformApi();
    const { wrap } = internal.streamsReadableApi();

    // Creates a transform that calls `pass(length)` before it passes bytes on, and `end()` at the
    // end of the stream.
    function through(strategy, what, pass, end) {
      const { highWaterMark } = strategyOf(strategy, what);
      const algorithms = {
        __proto__: null,
        transform(chunk, transform) {
          const bytes = new Uint8Array(bytesOf(chunk, what));
          const length = TypedArrayPrototypeGetByteLength(bytes);
          if (length === 0) return;
          pass(length);
          transform.enqueue(bytes);
        },
        flush: end,
        cancel: null,
      };
      const marks = {
        __proto__: null,
        writableMark: highWaterMarkOf({ __proto__: null, highWaterMark }, 1),
        // A high-water mark that the Worker gives counts bytes; the default counts chunks. A chunk
        // that is not bytes has the size 0, and fails both sides when it is transformed.
        writableSize: highWaterMark === undefined ? null : (chunk) => {
          const bytes = isObject(chunk) ? bufferSource(chunk) : null;
          return bytes === null ? 0 : TypedArrayPrototypeGetByteLength(bytes);
        },
        readableMark: 0,
        readableSize: null,
      };
      const transform = new Transform(algorithms, undefined, marks);
      transform.start(null);
      return transform;
    }
    const nothing = () => {};

    class IdentityTransformStream extends TransformStream {
      constructor(queuingStrategy = undefined) {
        super(WRAP, through(queuingStrategy, "IdentityTransformStream", nothing, null));
      }
    }
    expose(IdentityTransformStream);

    class FixedLengthStream extends TransformStream {
      constructor(expectedLength, queuingStrategy = undefined) {
        needs(arguments.length, 1, "FixedLengthStream");
        const number = typeof expectedLength === "bigint" ? Number(expectedLength) : expectedLength;
        let left = enforced(number, NumberMAX_SAFE_INTEGER, "FixedLengthStream");
        super(WRAP, through(queuingStrategy, "FixedLengthStream", (length) => {
          left -= length;
          if (left < 0) throw new TypeError(`FixedLengthStream: the stream has ${-left} bytes more than the given length`);
        }, () => {
          if (left > 0) throw new TypeError(`FixedLengthStream: the stream has ${left} bytes less than the given length`);
        }));
        WeakMapPrototypeSet(internal.body.lengths, wrap(recordOf(this).readable), left);
      }
    }
    expose(FixedLengthStream);
    return { FixedLengthStream, IdentityTransformStream };
  });

  internal.later("digestStreams", [], () => {
    const { WRAP } = internal.streamsBase();
    const { createWritableStream } = internal.streamsWritable();
    const { WritableStream } = internal.streamsWritableApi();
    // The maximum number of bytes per native call, because such a call cannot be terminated.
    const STEP = 2 ** 18;
    // The length of the longest digest, SHA-512, in bytes.
    const MAX_DIGEST = 64;
    // The names of the hashes in native code.
    const NAMES = {
      __proto__: null, md5: "md5", "sha-1": "sha1", "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512",
    };

    // A registry that closes the native state of a stream that is collected before its end. It is
    // created on first use, because a snapshot cannot contain a FinalizationRegistry.
    let registry = null;

    class DigestStream extends WritableStream {
      #written = 0;
      #digest = PromiseWithResolvers();

      constructor(algorithm) {
        needs(arguments.length, 1, "DigestStream");
        const wanted = DOMString(isObject(algorithm) ? algorithm.name : algorithm);
        const name = NAMES[StringPrototypeToLowerCase(wanted)];
        if (name === undefined) {
          const { DOMException } = internal.exceptions();
          const message = `DigestStream: '${wanted}' is not supported; use MD5, SHA-1, SHA-256, SHA-384 or SHA-512`;
          throw new DOMException(message, "NotSupportedError");
        }
        const number = ops.hashOpen(name, undefined);
        super(WRAP, createWritableStream({
          __proto__: null,
          write: (chunk) => this.#write(number, chunk),
          close: () => this.#close(number),
          abort: (reason) => this.#abort(number, reason),
        }));
        registry ??= new FinalizationRegistry((number) => ops.hashClose(number));
        FinalizationRegistryPrototypeRegister(registry, this, number, this);
        internal.streamsBase().handled(this.#digest.promise);
      }

      #write(number, chunk) {
        let bytes;
        try {
          bytes = typeof chunk === "string" ? internal.encodeUtf8(chunk) : bytesOf(chunk, "DigestStream");
        } catch (error) {
          this.#abort(number, error);
          throw error;
        }
        const buffer = TypedArrayPrototypeGetBuffer(bytes);
        const offset = TypedArrayPrototypeGetByteOffset(bytes);
        const length = TypedArrayPrototypeGetByteLength(bytes);
        for (let at = 0; at < length; at += STEP) {
          ops.hashUpdate(number, new Uint8Array(buffer, offset + at, MathMin(STEP, length - at)));
        }
        this.#written += length;
      }

      #close(number) {
        FinalizationRegistryPrototypeUnregister(registry, this);
        const room = new Uint8Array(MAX_DIGEST);
        const length = ops.hashFinish(number, room);
        const digest = new Uint8Array(new Uint8Array(TypedArrayPrototypeGetBuffer(room), 0, length));
        this.#digest.resolve(TypedArrayPrototypeGetBuffer(digest));
      }

      #abort(number, reason) {
        FinalizationRegistryPrototypeUnregister(registry, this);
        ops.hashClose(number);
        this.#digest.reject(reason);
      }

      get digest() {
        return this.#digest.promise;
      }

      get bytesWritten() {
        return this.#written;
      }
    }
    expose(DigestStream);
    return { DigestStream };
  });
})
