// TextEncoder and TextDecoder (Encoding §7). Native code converts: V8 encodes UTF-8, and
// encoding_rs decodes.
//: after webidl.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, DataViewPrototypeGetByteLength, FinalizationRegistry, FinalizationRegistryPrototypeRegister,
    FinalizationRegistryPrototypeUnregister, MathFloor, MathMin, RangeError, ReflectApply, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeGetSymbolToStringTag, Uint8Array,
  } = internal.primordials;
  const { DOMString, bufferSource, dictionary, expose, needs } = internal.webidl;

  // Encodes a string as UTF-8. The memory is allocated here, where a failed allocation is an
  // ordinary RangeError; native code fills the memory.
  internal.encodeUtf8 = (string) => {
    const bytes = new Uint8Array(internal.ops.utf8Length(string));
    internal.ops.utf8Write(string, bytes);
    return bytes;
  };
  // Native code decodes this many bytes in tens of milliseconds. More bytes are decoded in pieces,
  // between which a termination takes effect.
  const PIECE = 2 ** 21;

  const byteLength = (view) => (TypedArrayPrototypeGetSymbolToStringTag(view) === undefined
    ? DataViewPrototypeGetByteLength(view) : TypedArrayPrototypeGetByteLength(view));

  // Returns a string, or null if the bytes are invalid and `fatal` is true.
  function decodeWhole(view, encoding, fatal, keepsMark) {
    const { ops } = internal;
    if (byteLength(view) <= PIECE) return ops.decode(view, encoding, fatal, keepsMark);
    return pushPieces(openDecoder(encoding, fatal, keepsMark), view, true);
  }
  function openDecoder(encoding, fatal, keepsMark) {
    const decoder = internal.ops.decoderOpen(encoding, fatal, keepsMark);
    if (decoder === undefined) throw new RangeError("TextDecoder.decode: too many streams are being decoded");
    return decoder;
  }
  // Decodes the next bytes with a native decoder. Returns a string, or null if the bytes are
  // invalid and the decoder is fatal.
  function pushPieces(decoder, view, last) {
    const { ops } = internal;
    if (view === undefined || byteLength(view) <= PIECE) return ops.decoderPush(decoder, view, last);
    const whole = /** @type {Uint8Array} */ (bufferSource(view));
    const buffer = TypedArrayPrototypeGetBuffer(whole);
    const offset = TypedArrayPrototypeGetByteOffset(whole);
    const length = TypedArrayPrototypeGetByteLength(whole);
    let text = "";
    for (let at = 0; at < length; at += PIECE) {
      const piece = new Uint8Array(buffer, offset + at, MathMin(PIECE, length - at));
      const part = ops.decoderPush(decoder, piece, last && at + PIECE >= length);
      if (part === null) return null;
      text += part;
    }
    return text;
  }

  // Decodes the UTF-8 of a body: drops the byte order mark, and replaces invalid sequences.
  internal.decodeUtf8 = (bytes) => /** @type {string} */ (decodeWhole(bytes, "utf-8", false, false));

  internal.later("encoding", ["TextDecoder", "TextEncoder"], () => {
    class TextEncoder {
      // The field is only a brand: an encoder has no state.
      #brand = true;

      get encoding() {
        this.#brand;
        return "utf-8";
      }

      encode(input = "") {
        this.#brand;
        return internal.encodeUtf8(DOMString(input));
      }

      encodeInto(source, destination) {
        this.#brand;
        needs(arguments.length, 2, "TextEncoder.encodeInto");
        const string = DOMString(source);
        if (!ArrayBufferIsView(destination) || TypedArrayPrototypeGetSymbolToStringTag(destination) !== "Uint8Array") {
          throw new TypeError("TextEncoder.encodeInto: the destination is not a Uint8Array");
        }
        // The result is the number of code units read times 2³², plus the number of bytes written.
        const done = internal.ops.utf8Write(string, destination);
        return { read: MathFloor(done / 2 ** 32), written: done % 2 ** 32 };
      }
    }
    expose(TextEncoder);

    // A decoder in the middle of a stream is a native object with a number. This registry closes
    // the native decoder when its TextDecoder is collected. It is created on first use, because a
    // snapshot cannot contain a FinalizationRegistry.
    let registry;
    let attributesOf; // (decoder) → its encoding, fatal and ignoreBOM

    class TextDecoder {
      #encoding;
      #fatal;
      #ignoreBOM;
      // The number of the native decoder; -1 when no stream is open.
      #stream = -1;

      static {
        attributesOf = (decoder) => ({
          __proto__: null, encoding: decoder.#encoding, fatal: decoder.#fatal, ignoreBOM: decoder.#ignoreBOM,
        });
      }

      constructor(label = "utf-8", options = undefined) {
        const wanted = DOMString(label);
        const { fatal, ignoreBOM } = dictionary(options, "TextDecoder");
        this.#fatal = !!fatal;
        this.#ignoreBOM = !!ignoreBOM;
        this.#encoding = wanted === "utf-8" ? wanted : internal.ops.encodingName(wanted);
        if (this.#encoding === undefined) throw new RangeError(`TextDecoder: '${wanted}' is not the label of an encoding`);
      }

      get encoding() {
        return this.#encoding;
      }

      get fatal() {
        return this.#fatal;
      }

      get ignoreBOM() {
        return this.#ignoreBOM;
      }

      decode(input = undefined, options = undefined) {
        const encoding = this.#encoding;
        const more = !!dictionary(options, "TextDecoder.decode").stream;
        const bytes = input === undefined || ArrayBufferIsView(input) ? input : bufferSource(input);
        if (bytes === null) {
          throw new TypeError("TextDecoder.decode: the input is neither an ArrayBuffer nor a view of one");
        }
        const text = more || this.#stream >= 0
          ? this.#push(bytes, !more)
          : bytes === undefined ? "" : decodeWhole(bytes, encoding, this.#fatal, this.#ignoreBOM);
        if (text === null) throw new TypeError(`TextDecoder.decode: the bytes are not valid ${encoding}`);
        return text;
      }

      #push(bytes, last) {
        if (this.#stream < 0) {
          const id = openDecoder(this.#encoding, this.#fatal, this.#ignoreBOM);
          registry ??= new FinalizationRegistry((id) => internal.ops.decoderClose(id));
          FinalizationRegistryPrototypeRegister(registry, this, id, this);
          this.#stream = id;
        }
        const text = pushPieces(this.#stream, bytes, last);
        // The end of the stream closes the native decoder, and so does an invalid sequence.
        if (last || text === null) {
          this.#stream = -1;
          FinalizationRegistryPrototypeUnregister(registry, this);
        }
        return text;
      }
    }
    // The original function, even if the prototype changes later.
    const { decode } = TextDecoder.prototype;
    expose(TextDecoder);
    return {
      TextDecoder, TextEncoder, attributesOf: (decoder) => attributesOf(decoder),
      decode: (decoder, bytes, options) => ReflectApply(decode, decoder, [bytes, options]),
    };
  });
})
