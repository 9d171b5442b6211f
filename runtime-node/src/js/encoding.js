// TextEncoder and TextDecoder (Encoding §7). Native code does the work: V8 for UTF-8, encoding_rs for the rest.
(function (internal) {
  "use strict";

  const {
    FinalizationRegistry, FinalizationRegistryPrototypeRegister, FinalizationRegistryPrototypeUnregister, RangeError,
    TypeError,
  } = internal.primordials;
  const { DOMString, USVString, dictionary, expose, needs } = internal.webidl;

  class TextEncoder {
    // There is nothing to keep; the field is the brand.
    #brand = true;

    get encoding() {
      this.#brand;
      return "utf-8";
    }

    encode(input = "") {
      this.#brand;
      return internal.ops.encodeUtf8(DOMString(input));
    }

    encodeInto(source, destination) {
      this.#brand;
      needs(arguments.length, 2, "TextEncoder.encodeInto");
      // One number for two: code units read, then bytes written.
      const done = internal.ops.encodeUtf8Into(USVString(source), destination);
      if (done === undefined) throw new TypeError("TextEncoder.encodeInto: the destination is not a Uint8Array");
      return { read: done[0], written: done[1] };
    }
  }
  expose(TextEncoder);

  // A decoder in the middle of a stream lives in native code under a number. One that is dropped there by its
  // TextDecoder being forgotten is taken away by this registry, made on first use: a snapshot cannot hold one.
  let forgotten;

  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    // The number of the native decoder; -1 when no stream is open.
    #stream = -1;

    constructor(label = "utf-8", options = undefined) {
      if (label === "utf-8") {
        this.#encoding = label;
      } else {
        const name = internal.ops.encodingName(DOMString(label));
        if (name === undefined) throw new RangeError(`TextDecoder: '${label}' is not the label of an encoding`);
        this.#encoding = name;
      }
      const { fatal, ignoreBOM } = dictionary(options, "TextDecoder");
      this.#fatal = !!fatal;
      this.#ignoreBOM = !!ignoreBOM;
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
      let text;
      if (this.#stream < 0 && !more) {
        if (input === undefined) return "";
        text = internal.ops.decode(input, encoding, this.#fatal, this.#ignoreBOM);
      } else {
        if (this.#stream < 0) {
          this.#stream = internal.ops.decoderOpen(encoding, this.#fatal, this.#ignoreBOM);
          forgotten ??= new FinalizationRegistry((id) => internal.ops.decoderClose(id));
          FinalizationRegistryPrototypeRegister(forgotten, this, this.#stream, this);
        }
        text = internal.ops.decoderPush(this.#stream, input, !more);
        // The end of the stream, and an error too, close the native decoder; a wrong argument leaves it alone.
        if (text === null || (!more && text !== undefined)) {
          this.#stream = -1;
          FinalizationRegistryPrototypeUnregister(forgotten, this);
        }
      }
      if (typeof text === "string") return text;
      throw new TypeError(text === null
        ? `TextDecoder.decode: the bytes are not valid ${encoding}`
        : "TextDecoder.decode: the input is neither an ArrayBuffer nor a view of one");
    }
  }
  expose(TextDecoder);

  // For bodies: UTF-8 without its byte order mark, mistakes replaced.
  internal.decodeUtf8 = (bytes) => internal.ops.decode(bytes, "utf-8", false, false);
  internal.encodeUtf8 = (string) => internal.ops.encodeUtf8(string);
})
