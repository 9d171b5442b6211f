// TextDecoderStream and TextEncoderStream (Encoding §7.5, §7.6).
//: late, after encoding.js streams-transform.js
(function (internal) {
  "use strict";

  const {
    MathMin, StringPrototypeCharCodeAt, StringPrototypeSlice, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, Uint8Array,
  } = internal.primordials;
  const { DOMString, bufferSource, expose, isObject } = internal.webidl;

  internal.later("streamsText", ["TextDecoderStream", "TextEncoderStream"], () => {
    const { createTransformStream } = internal.streamsTransform();
    const { wrap: wrapReadable } = internal.streamsReadableApi();
    const { wrap: wrapWritable } = internal.streamsWritableApi();
    const { TextDecoder, attributesOf, decode } = internal.encoding();

    let isEncoder;
    let isDecoder;
    let newDecoder; // creates the record of a transform that decodes UTF-8

    class TextEncoderStream {
      #transform;

      static {
        isEncoder = (value) => isObject(value) && #transform in value;
      }

      constructor() {
        // A high surrogate whose other half may be in the next chunk.
        let half = "";
        this.#transform = createTransformStream({
          __proto__: null,
          transform(chunk, controller) {
            let text = half + DOMString(chunk);
            half = "";
            const last = text.length - 1;
            if (last < 0) return;
            const unit = StringPrototypeCharCodeAt(text, last);
            if (unit >= 0xD800 && unit <= 0xDBFF) {
              half = text[last];
              text = StringPrototypeSlice(text, 0, last);
            }
            if (text !== "") controller.enqueue(internal.encodeUtf8(text));
          },
          flush(controller) {
            // U+FFFD
            if (half !== "") controller.enqueue(new Uint8Array([0xEF, 0xBF, 0xBD]));
          },
        });
      }

      get encoding() {
        this.#transform; // a brand check
        return "utf-8";
      }

      get readable() {
        return wrapReadable(this.#transform.readable);
      }

      get writable() {
        return wrapWritable(this.#transform.writable);
      }
    }
    expose(TextEncoderStream);

    // The maximum number of bytes per native call, which bounds the duration of the call.
    const PIECE = 2 ** 18;
    const MORE = { __proto__: null, stream: true };

    class TextDecoderStream {
      #transform;
      #decoder;

      static {
        isDecoder = (value) => isObject(value) && #transform in value;
        newDecoder = () => new TextDecoderStream().#transform;
      }

      constructor(label = "utf-8", options = undefined) {
        const decoder = new TextDecoder(label, options);
        this.#decoder = decoder;
        this.#transform = createTransformStream({
          __proto__: null,
          transform(chunk, controller) {
            const bytes = bufferSource(chunk);
            if (bytes === null) throw new TypeError("TextDecoderStream: a chunk is neither an ArrayBuffer nor a view of one");
            const buffer = TypedArrayPrototypeGetBuffer(bytes);
            const end = TypedArrayPrototypeGetByteOffset(bytes) + TypedArrayPrototypeGetByteLength(bytes);
            let text = "";
            for (let at = TypedArrayPrototypeGetByteOffset(bytes); at < end; at += PIECE) {
              text += decode(decoder, new Uint8Array(buffer, at, MathMin(PIECE, end - at)), MORE);
            }
            if (text !== "") controller.enqueue(text);
          },
          flush(controller) {
            const text = decode(decoder);
            if (text !== "") controller.enqueue(text);
          },
        });
      }

      get encoding() {
        return attributesOf(this.#decoder).encoding;
      }

      get fatal() {
        return attributesOf(this.#decoder).fatal;
      }

      get ignoreBOM() {
        return attributesOf(this.#decoder).ignoreBOM;
      }

      get readable() {
        return wrapReadable(this.#transform.readable);
      }

      get writable() {
        return wrapWritable(this.#transform.writable);
      }
    }
    expose(TextDecoderStream);

    internal.describe("TextEncoderStream", (value) => isEncoder(value), TextEncoderStream, ["encoding", "readable", "writable"]);
    internal.describe("TextDecoderStream", (value) => isDecoder(value), TextDecoderStream,
      ["encoding", "fatal", "ignoreBOM", "readable", "writable"]);
    return { TextDecoderStream, TextEncoderStream, newDecoder };
  });
})
