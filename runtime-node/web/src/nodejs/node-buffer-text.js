// node:buffer: conversions between a Buffer and text, and the methods that accept text instead of
// bytes: fill and search. Native code receives one step of the data per call, so that the watchdog
// can terminate a Worker between calls.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, Int32Array, MathFloor, MathMax, MathMin, MathTrunc, NumberIsNaN, RangeError, ReflectApply,
    StringPrototypeCharCodeAt, StringPrototypeSlice, StringPrototypeToLowerCase, TypeError,
    TypedArrayPrototypeCopyWithin, TypedArrayPrototypeFill, TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetSymbolToStringTag, Uint8Array,
  } = internal.primordials;
  const { ops } = internal;

  // The number of code units or bytes per native call: a multiple of three, for base64, and of two,
  // for UTF-16.
  const STEP = 3 * 2 ** 16;
  // The limit on the length of a string that Node.js states, in code units: that of an unpatched
  // V8. The patch `lengths` lowers V8's limit, beyond which V8 throws a RangeError of its own.
  const MAX_STRING = 2 ** 29 - 24;

  internal.define("bufferText", () => ({ FastBuffer, isBytes, needBytes, part }) => {
    const { badValue, coded, invalid, needString, outOfRange } = internal.node;

    // Native code uses the same numbers, except for UTF8, which has functions of its own.
    const UTF8 = -1, ASCII = 0, LATIN1 = 1, UTF16 = 2, HEX = 3, BASE64 = 4, BASE64URL = 5;
    const ENCODINGS = {
      __proto__: null,
      "utf8": UTF8, "utf-8": UTF8, "ascii": ASCII, "latin1": LATIN1, "binary": LATIN1, "ucs2": UTF16, "ucs-2": UTF16,
      "utf16le": UTF16, "utf-16le": UTF16, "hex": HEX, "base64": BASE64, "base64url": BASE64URL,
    };
    const encodingOf = (name) => ENCODINGS[name] ?? (name.length < 10 ? ENCODINGS[StringPrototypeToLowerCase(name)] : undefined);
    const unknown = (name) => coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${name}`);
    function encoding(name) {
      if (name === undefined || name === null || name === "") return UTF8;
      const found = encodingOf(`${name}`);
      if (found === undefined) throw unknown(name);
      return found;
    }

    // ---- Text to bytes

    function base64Length(string) {
      let { length } = string;
      // The length is exact if the text contains only base64 digits and padding.
      for (let i = 0; i < 2 && length > 0 && StringPrototypeCharCodeAt(string, length - 1) === 0x3D; i++) length--;
      return MathFloor(length * 3 / 4);
    }

    const isHigh = (unit) => unit >= 0xD800 && unit <= 0xDBFF;

    function utf8Length(string) {
      if (string.length <= STEP) return ops.utf8Length(string);
      let length = 0;
      for (let at = 0; at < string.length;) {
        const end = characterEnd(string, at, MathMin(at + STEP, string.length));
        length += ops.utf8Length(StringPrototypeSlice(string, at, end));
        at = end;
      }
      return length;
    }
    // Returns an end that does not split a surrogate pair.
    const characterEnd = (string, start, end) =>
      end < string.length && end - start > 1 && isHigh(StringPrototypeCharCodeAt(string, end - 1)) ? end - 1 : end;

    function byteLength(string, kind) {
      switch (kind) {
        case UTF8: return utf8Length(string);
        case UTF16: return string.length * 2;
        case HEX: return string.length >>> 1;
        case BASE64: case BASE64URL: return base64Length(string);
        default: return string.length;
      }
    }

    // Writes the part of `string` that fits. Returns the number of bytes written.
    function writeBytes(string, bytes, kind) {
      const room = TypedArrayPrototypeGetByteLength(bytes);
      const { length } = string;
      let at = 0, written = 0;
      let step = STEP;
      while (at < length && written < room) {
        let end = MathMin(at + step, length);
        if (kind === UTF8) end = characterEnd(string, at, end);
        const piece = at === 0 && end === length ? string : StringPrototypeSlice(string, at, end);
        const target = written === 0 ? bytes : part(bytes, written, room);
        // The result is the number of code units read times 2³², plus the number of bytes written.
        const done = kind === UTF8 ? ops.utf8Write(piece, target) : ops.textToBytes(piece, target, kind, end === length);
        const read = MathFloor(done / 2 ** 32);
        written += done % 2 ** 32;
        at += read;
        if (at === end) continue;
        // Base64 may leave a partial group for the next piece; other encodings stop here.
        if (kind !== BASE64 && kind !== BASE64URL) break;
        step = read === 0 ? step * 2 : STEP;
      }
      return written;
    }

    function fromString(string, name) {
      const kind = typeof name === "string" ? encoding(name) : UTF8;
      const bytes = new FastBuffer(byteLength(string, kind));
      const written = string.length === 0 ? 0 : writeBytes(string, bytes, kind);
      return written === TypedArrayPrototypeGetByteLength(bytes) ? bytes : part(bytes, 0, written);
    }

    // ---- Bytes to text

    function decode(bytes, kind) {
      return kind === UTF8 ? /** @type {string} */ (ops.decode(bytes, "utf-8", false, true)) : ops.bytesToText(bytes, kind);
    }

    function toText(bytes, kind, start, end) {
      const size = end - start;
      const characters = kind === HEX ? size * 2 : kind === BASE64 || kind === BASE64URL ? size / 3 * 4 : kind === UTF16 ? size / 2 : size;
      if (characters > MAX_STRING) {
        throw coded(RangeError, "ERR_STRING_TOO_LONG", `Cannot create a string longer than 0x1fffffe8 characters`);
      }
      if (size <= STEP) return decode(part(bytes, start, end), kind);
      let text = "";
      for (let at = start; at < end;) {
        let to = MathMin(at + STEP, end);
        // Moves the boundary back to the start of a UTF-8 sequence.
        for (let i = 0; kind === UTF8 && to < end && i < 3 && (bytes[to] & 0xC0) === 0x80; i++) to--;
        text += decode(part(bytes, at, to), kind);
        at = to;
      }
      return text;
    }

    // ---- Methods

    const clamped = (value, length, fallback) => {
      if (value === undefined) return fallback;
      const number = MathTrunc(+value);
      return !(number > 0) ? 0 : MathMin(number, length);
    };

    const SLICES = { __proto__: null, asciiSlice: ASCII, base64Slice: BASE64, base64urlSlice: BASE64URL, hexSlice: HEX,
      latin1Slice: LATIN1, ucs2Slice: UTF16, utf8Slice: UTF8 };
    const WRITES = { __proto__: null, asciiWrite: ASCII, base64Write: BASE64, base64urlWrite: BASE64URL, hexWrite: HEX,
      latin1Write: LATIN1, ucs2Write: UTF16, utf8Write: UTF8 };

    /** @type {Methods} */
    const methods = {
      toString(name, start, end) {
        const length = TypedArrayPrototypeGetByteLength(this);
        const from = clamped(start, length, 0);
        const to = clamped(end, length, length);
        return from >= to ? "" : toText(this, encoding(name), from, to);
      },
      toLocaleString(name, start, end) {
        return ReflectApply(methods.toString, this, [name, start, end]);
      },
      write(string, offset, length, name) {
        needString(string, "argument");
        const size = TypedArrayPrototypeGetByteLength(this);
        let from = 0, room = size, kind = name;
        if (typeof offset === "string") {
          kind = offset;
        } else if (offset !== undefined) {
          from = position(offset, "offset", size);
          room = size - from;
          if (typeof length === "string") kind = length;
          else if (length !== undefined) room = MathMin(room, position(length, "length", size));
        }
        return room === 0 || string.length === 0 ? 0 : writeBytes(string, part(this, from, from + room), encoding(kind));
      },
      fill(value, offset, end, name) {
        const length = TypedArrayPrototypeGetByteLength(this);
        let from = offset, to = end, kind = name;
        if (typeof value === "string") {
          if (typeof offset === "string") {
            kind = offset;
            from = to = undefined;
          } else if (typeof end === "string") {
            kind = end;
            to = undefined;
          }
          if (kind !== undefined && typeof kind !== "string") throw invalid("encoding", "of type string", kind);
        }
        from = from === undefined ? 0 : position(from, "offset", length);
        to = to === undefined ? length : position(to, "end", length);
        if (from < to) fillWith(part(this, from, to), value, kind);
        return this;
      },
      indexOf(value, byteOffset, name) {
        return find(this, value, byteOffset, name, false);
      },
      lastIndexOf(value, byteOffset, name) {
        return find(this, value, byteOffset, name, true);
      },
      includes(value, byteOffset, name) {
        return find(this, value, byteOffset, name, false) !== -1;
      },
    };
    for (const name in SLICES) {
      /** @this {Uint8Array} */
      methods[name] = function (start, end) {
        const length = TypedArrayPrototypeGetByteLength(this);
        const from = clamped(start, length, 0), to = clamped(end, length, length);
        return from >= to ? "" : toText(this, SLICES[name], from, to);
      };
    }
    for (const name in WRITES) {
      /** @this {Uint8Array} */
      methods[name] = function (string, offset = 0, length = TypedArrayPrototypeGetByteLength(this) - offset) {
        return writeBytes(needString(string, "argument"), part(this, offset, offset + length), WRITES[name]);
      };
    }

    function position(value, name, max) {
      if (typeof value !== "number") throw invalid(name, "of type number", value);
      if (value % 1 !== 0) throw outOfRange(name, "an integer", value);
      if (value < 0 || value > max) throw outOfRange(name, `>= 0 && <= ${max}`, value);
      return value;
    }

    function fillWith(bytes, value, name) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      if (typeof value === "string" || ArrayBufferIsView(value)) {
        const pattern = typeof value === "string" ? fromString(value, name) : viewed(value);
        const size = TypedArrayPrototypeGetByteLength(pattern);
        if (size === 0) {
          if (typeof value === "string" && value === "") TypedArrayPrototypeFill(bytes, 0);
          else throw badValue("value", value);
          return;
        }
        let done = MathMin(size, length);
        for (let i = 0; i < done; i++) bytes[i] = pattern[i];
        for (; done < length; done *= 2) TypedArrayPrototypeCopyWithin(bytes, done, 0, MathMin(done, length - done));
      } else {
        TypedArrayPrototypeFill(bytes, typeof value === "boolean" ? +value : value & 255);
      }
    }

    const viewed = (view) => (isBytes(view) ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength));

    function find(bytes, value, byteOffset, name, backwards) {
      let kind = name, offset = byteOffset;
      if (typeof offset === "string") {
        kind = offset;
        offset = undefined;
      }
      let needle;
      if (typeof value === "number") needle = new Uint8Array([value]);
      else if (typeof value === "string") needle = fromString(value, kind === undefined ? undefined : `${kind}`);
      else if (isBytes(value)) needle = value;
      else throw invalid("value", "one of type number or string or an instance of Buffer or Uint8Array", value);

      const length = TypedArrayPrototypeGetByteLength(bytes);
      const size = TypedArrayPrototypeGetByteLength(needle);
      let from = +offset;
      if (offset === undefined || NumberIsNaN(from)) from = backwards ? length : 0;
      from = MathTrunc(from);
      if (from < 0) from += length;
      // A UTF-16 code unit has two bytes, so a match must begin at an even index.
      const step = typeof value === "string" && encoding(kind) === UTF16 ? 2 : 1;
      if (backwards) return findLast(bytes, needle, length, size, from, step);
      from = MathMax(from, 0);
      if (size === 0) return MathMin(from, length);
      if (size > STEP) return findLong(bytes, needle, from, false, step);
      for (let at = from; at + size <= length;) {
        const found = ops.bytesFind(bytes, needle, at, MathMin(at + STEP + size - 1, length));
        if (found < 0) at += STEP;
        else if (found % step !== 0) at = found + 1;
        else return found;
      }
      return -1;
    }

    function findLast(bytes, needle, length, size, from, step) {
      if (from < 0) return -1;
      if (size === 0) return MathMin(from, length);
      // The last index at which a match may begin.
      const last = MathMin(from, length - size);
      if (size > STEP) return findLong(bytes, needle, last, true, step);
      for (let end = last + size; end >= size;) {
        const start = MathMax(end - STEP - size + 1, 0);
        const found = ops.bytesFindLast(part(bytes, start, end), needle);
        if (found < 0) end -= STEP;
        else if ((start + found) % step !== 0) end = start + found + size - 1;
        else return start + found;
      }
      return -1;
    }

    // Searches for a needle that is longer than a step, with the Knuth-Morris-Pratt algorithm,
    // which reads each byte of the text once.
    function findLong(bytes, needle, from, backwards, step) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      const size = TypedArrayPrototypeGetByteLength(needle);
      const byte = backwards ? (i) => needle[size - 1 - i] : (i) => needle[i];
      // overlaps[i] is the length of the longest proper prefix of the needle that is a suffix of
      // its first i + 1 bytes.
      const overlaps = new Int32Array(size);
      for (let i = 1, matched = 0; i < size; i++) {
        while (matched > 0 && byte(i) !== byte(matched)) matched = overlaps[matched - 1];
        if (byte(i) === byte(matched)) matched++;
        overlaps[i] = matched;
      }
      let matched = 0;
      for (let at = backwards ? from + size - 1 : from; at >= 0 && at < length; at += backwards ? -1 : 1) {
        while (matched > 0 && bytes[at] !== byte(matched)) matched = overlaps[matched - 1];
        if (bytes[at] === byte(matched)) matched++;
        if (matched < size) continue;
        const found = backwards ? at : at - size + 1;
        if (found % step === 0) return found;
        matched = overlaps[matched - 1];
      }
      return -1;
    }

    const HEX_DIGITS = 50;
    function inspect() {
      const shown = toText(this, HEX, 0, MathMin(HEX_DIGITS, TypedArrayPrototypeGetByteLength(this)));
      let out = "<Buffer";
      for (let i = 0; i < shown.length; i += 2) out += ` ${shown[i]}${shown[i + 1]}`;
      const left = TypedArrayPrototypeGetByteLength(this) - HEX_DIGITS;
      if (left > 0) out += ` ... ${left} more byte${left === 1 ? "" : "s"}`;
      return `${out}>`;
    }

    function source(value, name) {
      if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) return viewed(value);
      try {
        ArrayBufferPrototypeGetByteLength(value);
      } catch {
        throw invalid(name, "an instance of ArrayBuffer, Buffer, or TypedArray", value);
      }
      return new Uint8Array(value);
    }
    const isAscii = (input) => {
      const bytes = source(input, "input");
      for (let i = 0; i < bytes.length; i++) if (bytes[i] > 0x7F) return false;
      return true;
    };
    const isUtf8 = (input) => ops.decode(source(input, "input"), "utf-8", true, true) !== null;
    const transcode = (bytes, fromName, toName) => {
      needBytes(bytes, "source");
      const from = encoding(fromName), to = encoding(toName);
      if (from > UTF16 || to > UTF16) {
        throw coded(TypeError, "U_ILLEGAL_ARGUMENT_ERROR", "Unable to transcode Buffer [U_ILLEGAL_ARGUMENT_ERROR]");
      }
      const string = toText(bytes, from, 0, bytes.length);
      if (to !== ASCII && to !== LATIN1) return fromString(string, toName);
      // Characters that the target encoding lacks become question marks.
      const out = new FastBuffer(string.length);
      const max = to === ASCII ? 0x7F : 0xFF;
      let length = 0;
      for (let i = 0; i < string.length; i++) {
        const unit = StringPrototypeCharCodeAt(string, i);
        if (isHigh(unit) && i + 1 < string.length) i++;
        out[length++] = unit > max ? 0x3F : unit;
      }
      return part(out, 0, length);
    };

    return {
      encoding, encodingOf, fromString, inspect, isAscii, isUtf8, methods, toText, transcode,
      lengthOf: (string, name) => byteLength(string, encodingOf(`${name}`) ?? UTF8),
    };
  });
})
