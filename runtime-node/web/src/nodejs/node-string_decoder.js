// node:string_decoder: decodes bytes that arrive in chunks, which may split a character.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, Symbol, TypeError, Uint8Array } = internal.primordials;

  internal.define("string_decoder", () => {
    const { coded, defineHidden, invalid } = internal.node;
    const { Buffer } = internal.use("buffer");
    const ALIASES = { __proto__: null, "utf-8": "utf8", "ucs2": "utf16le", "ucs-2": "utf16le", "utf-16le": "utf16le", "binary": "latin1" };

    // The following functions return the number of bytes at the end that begin an incomplete
    // character.
    function incompleteUtf8(bytes) {
      const { length } = bytes;
      for (let back = 1; back <= 3 && back <= length; back++) {
        const byte = bytes[length - back];
        if ((byte & 0xC0) === 0x80) continue;
        const size = byte >= 0xF0 && byte <= 0xF4 ? 4 : byte >= 0xE0 && byte < 0xF0 ? 3 : byte >= 0xC2 && byte < 0xE0 ? 2 : 1;
        if (size <= back) return 0;
        // A sequence that is already malformed does not count as incomplete.
        const next = back > 1 ? bytes[length - back + 1] : 0x80;
        const isWrong = (byte === 0xE0 && next < 0xA0 && back > 1) || (byte === 0xED && next > 0x9F) ||
          (byte === 0xF0 && next < 0x90 && back > 1) || (byte === 0xF4 && next > 0x8F);
        return isWrong ? 0 : back;
      }
      return 0;
    }
    function incompleteUtf16(bytes) {
      const odd = bytes.length % 2;
      const high = bytes[bytes.length - odd - 1];
      return bytes.length - odd >= 2 && high >= 0xD8 && high <= 0xDB ? odd + 2 : odd;
    }

    // The bytes of an incomplete character.
    const INCOMPLETE = Symbol("incomplete");

    // StringDecoder is a function and not a class, so that constructor functions can call it to
    // inherit from it.
    /** @returns {void} */
    function StringDecoder(encoding = "utf8") {
      const name = `${encoding ?? "utf8"}`.toLowerCase();
      if (!Buffer.isEncoding(name)) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
      this.encoding = ALIASES[name] ?? name;
      defineHidden(this, { [INCOMPLETE]: new Uint8Array(0) });
    }

    function incompleteBytes(encoding, bytes) {
      switch (encoding) {
        case "utf8": return incompleteUtf8(bytes);
        case "utf16le": return incompleteUtf16(bytes);
        case "base64": case "base64url": return bytes.length % 3;
        default: return 0;
      }
    }

    defineHidden(StringDecoder.prototype, {
      write(chunk) {
        if (typeof chunk === "string") return chunk;
        if (!ArrayBufferIsView(chunk)) throw invalid("buf", "an instance of Buffer, TypedArray, or DataView", chunk);
        const given = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
        const bytes = this[INCOMPLETE].length === 0 ? given : Buffer.concat([this[INCOMPLETE], given]);
        const end = bytes.length - incompleteBytes(this.encoding, bytes);
        this[INCOMPLETE] = Buffer.from(bytes.subarray(end));
        return bytes.toString(this.encoding, 0, end);
      },

      end(chunk = undefined) {
        const text = chunk === undefined ? "" : this.write(chunk);
        const incomplete = this[INCOMPLETE];
        this[INCOMPLETE] = new Uint8Array(0);
        return text + (incomplete.length === 0 ? "" : incomplete.toString(this.encoding));
      },

      text(chunk, offset) {
        this[INCOMPLETE] = new Uint8Array(0);
        return this.write(chunk.subarray(offset));
      },

      get lastNeed() {
        const incomplete = this[INCOMPLETE];
        if (incomplete.length === 0) return 0;
        if (this.encoding !== "utf8") return this.encoding === "utf16le" ? 2 - incomplete.length % 2 : 3 - incomplete.length;
        return (incomplete[0] >= 0xF0 ? 4 : incomplete[0] >= 0xE0 ? 3 : 2) - incomplete.length;
      },

      get lastTotal() {
        return this[INCOMPLETE].length === 0 ? 0 : this[INCOMPLETE].length + this.lastNeed;
      },
    });
    return { StringDecoder };
  });
})
