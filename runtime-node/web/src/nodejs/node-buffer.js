// node:buffer: Buffer, a subclass of Uint8Array. The methods for text are in node-buffer-text.js,
// those for numbers in node-buffer-numbers.js. There is no pool: each Buffer has its own memory,
// unless it is a view of given memory.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, ArrayIsArray, MathMin, MathTrunc, NumberIsNaN,
    ObjectDefineProperties, ObjectDefineProperty, ObjectGetOwnPropertyDescriptors, ObjectSetPrototypeOf, RangeError,
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, SymbolSpecies, SymbolToPrimitive, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength,
    TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { ops } = internal;
  const { atob, btoa } = internal.platform;

  // The maximum lengths of a buffer, in bytes, and of a string, in code units. The second is that
  // of an unpatched V8; the patch `lengths` lowers it. The Worker's memory limit applies as well.
  const MAX_LENGTH = 2 ** 32 - 1;
  const MAX_STRING = 2 ** 29 - 24;
  // The number of bytes that are compared per native call.
  const STEP = 2 ** 18;

  internal.define("buffer", () => {
    const { INSPECT, coded, defineHidden, invalid, needInteger, outOfRange } = internal.node;

    class FastBuffer extends Uint8Array {}

    const isBytes = (value) => TypedArrayPrototypeGetSymbolToStringTag(value) === "Uint8Array";
    function needBytes(value, name) {
      if (!isBytes(value)) throw invalid(name, "an instance of Buffer or Uint8Array", value);
      return value;
    }
    const isBuffer = (value) => value instanceof Buffer;

    function needSize(size) {
      if (typeof size !== "number") throw invalid("size", "of type number", size);
      if (!(size >= 0 && size <= MAX_LENGTH)) throw outOfRange("size", `>= 0 && <= ${MAX_LENGTH}`, size);
      return size;
    }

    // Returns a view of the same memory.
    const part = (bytes, start, end) =>
      new FastBuffer(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + start, end - start);

    const isArrayBuffer = (value) => {
      try {
        ArrayBufferPrototypeGetByteLength(value);
        return true;
      } catch {
        return false;
      }
    };

    function fromArrayBuffer(buffer, byteOffset, length) {
      const size = ArrayBufferPrototypeGetByteLength(buffer);
      const offset = byteOffset === undefined ? 0 : +byteOffset || 0;
      const max = size - offset;
      if (max < 0) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"offset" is outside of buffer bounds');
      if (length === undefined) return new FastBuffer(buffer, offset);
      const wanted = +length;
      if (!(wanted > 0)) return new FastBuffer(buffer, offset, 0);
      if (wanted > max) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", '"length" is outside of buffer bounds');
      return new FastBuffer(buffer, offset, wanted);
    }

    // Creates a Buffer from an array or an array-like object.
    function fromItems(items) {
      const length = +items.length;
      if (!(length > 0)) return new FastBuffer(0);
      const bytes = new FastBuffer(needSize(MathTrunc(length)));
      if (ArrayBufferIsView(items) && TypedArrayPrototypeGetSymbolToStringTag(items) !== undefined) {
        TypedArrayPrototypeSet(bytes, items);
      } else {
        for (let i = 0; i < length; i++) bytes[i] = items[i];
      }
      return bytes;
    }

    function fromObject(value) {
      if (value.length !== undefined || isArrayBuffer(value.buffer)) {
        return typeof value.length === "number" ? fromItems(value) : new FastBuffer(0);
      }
      if (value.type === "Buffer" && ArrayIsArray(value.data)) return fromItems(value.data);
      return null;
    }

    const KINDS = "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object";
    function from(value, encodingOrOffset, length) {
      if (typeof value === "string") return text.fromString(value, encodingOrOffset);
      if (typeof value === "object" && value !== null) {
        if (isArrayBuffer(value)) return fromArrayBuffer(value, encodingOrOffset, length);
        const primitive = typeof value.valueOf === "function" ? value.valueOf() : value;
        if (primitive !== value && primitive !== undefined && primitive !== null &&
          (typeof primitive === "string" || typeof primitive === "object")) {
          return from(primitive, encodingOrOffset, length);
        }
        const made = fromObject(value);
        if (made !== null) return made;
        if (typeof value[SymbolToPrimitive] === "function") {
          const string = value[SymbolToPrimitive]("string");
          if (typeof string === "string") return text.fromString(string, encodingOrOffset);
        }
      }
      throw invalid("first argument", KINDS, value);
    }

    // The constructor, which is deprecated in favor of `Buffer.from` and `Buffer.alloc`. Old
    // packages still call it, with and without `new`.
    function Buffer(value, encodingOrOffset, length) {
      if (typeof value === "number") {
        if (typeof encodingOrOffset === "string") throw invalid("string", "of type string", value);
        return new FastBuffer(needSize(value));
      }
      return from(value, encodingOrOffset, length);
    }
    ObjectSetPrototypeOf(Buffer, Uint8Array);
    Buffer.prototype = FastBuffer.prototype;
    defineHidden(FastBuffer.prototype, { constructor: Buffer });
    ObjectDefineProperty(Buffer, "prototype", { __proto__: null, writable: false, enumerable: false });

    const species = {
      get [SymbolSpecies]() {
        return FastBuffer;
      },
    };
    ObjectDefineProperty(Buffer, SymbolSpecies, ReflectGetOwnPropertyDescriptor(species, SymbolSpecies));

    // Compares bytes, one step per native call. Returns -1, 0 or 1.
    function compareBytes(a, b) {
      const lengthA = TypedArrayPrototypeGetByteLength(a), lengthB = TypedArrayPrototypeGetByteLength(b);
      const both = MathMin(lengthA, lengthB);
      for (let at = 0; at < both; at += STEP) {
        const end = MathMin(at + STEP, both);
        const order = ops.bytesCompare(part(a, at, end), part(b, at, end));
        if (order !== 0) return order;
      }
      return lengthA < lengthB ? -1 : lengthA > lengthB ? 1 : 0;
    }

    const statics = {
      poolSize: 8192,
      from,
      of(...items) {
        return fromItems(items);
      },
      alloc(size, fill = undefined, encoding = undefined) {
        const bytes = new FastBuffer(needSize(size));
        return fill === undefined || fill === 0 || size === 0 ? bytes : bytes.fill(fill, encoding);
      },
      allocUnsafe(size) {
        return new FastBuffer(needSize(size));
      },
      allocUnsafeSlow(size) {
        return new FastBuffer(needSize(size));
      },
      isBuffer,
      isEncoding(encoding) {
        return typeof encoding === "string" && text.encodingOf(encoding) !== undefined;
      },
      byteLength(value, encoding = undefined) {
        if (typeof value === "string") return text.lengthOf(value, encoding);
        if (ArrayBufferIsView(value)) return value.byteLength;
        if (isArrayBuffer(value)) return ArrayBufferPrototypeGetByteLength(value);
        throw invalid("string", "of type string or an instance of Buffer or ArrayBuffer", value);
      },
      compare(a, b) {
        return compareBytes(needBytes(a, "buf1"), needBytes(b, "buf2"));
      },
      concat(list, length = undefined) {
        if (!ArrayIsArray(list)) throw invalid("list", "an instance of Array", list);
        let total = 0;
        for (let i = 0; i < list.length; i++) {
          total += TypedArrayPrototypeGetByteLength(needBytes(list[i], `list[${i}]`));
        }
        if (length !== undefined) total = needInteger(length, "length", 0);
        const bytes = new FastBuffer(needSize(total));
        let at = 0;
        for (let i = 0; i < list.length && at < total; i++) {
          const size = TypedArrayPrototypeGetByteLength(list[i]);
          TypedArrayPrototypeSet(bytes, size > total - at ? part(list[i], 0, total - at) : list[i], at);
          at += size;
        }
        return bytes;
      },
      copyBytesFrom(view, offset = 0, length = undefined) {
        if (TypedArrayPrototypeGetSymbolToStringTag(view) === undefined) throw invalid("view", "an instance of TypedArray", view);
        const items = TypedArrayPrototypeGetLength(view);
        const start = needInteger(offset, "offset", 0);
        const end = length === undefined ? items : MathMin(start + needInteger(length, "length", 0), items);
        if (start >= end) return new FastBuffer(0);
        const size = TypedArrayPrototypeGetByteLength(view) / items;
        const source = part(view, start * size, end * size);
        return fromItems(source);
      },
    };
    const names = ReflectOwnKeys(statics);
    for (let i = 0; i < names.length; i++) Buffer[names[i]] = statics[names[i]];

    // Resolves a relative index, as `Array.prototype.slice` does.
    const relativeIndex = (value, length, fallback) => {
      const number = value === undefined ? fallback : MathTrunc(+value);
      if (NumberIsNaN(number)) return 0;
      return number < 0 ? (number + length > 0 ? number + length : 0) : MathMin(number, length);
    };

    /** @type {Methods} */
    const methods = {
      slice(start, end) {
        return this.subarray(start, end);
      },
      subarray(start, end) {
        const length = TypedArrayPrototypeGetByteLength(this);
        const from = relativeIndex(start, length, 0);
        const to = relativeIndex(end, length, length);
        return part(this, from, to > from ? to : from);
      },
      equals(other) {
        needBytes(other, "otherBuffer");
        return TypedArrayPrototypeGetByteLength(this) === TypedArrayPrototypeGetByteLength(other) &&
          compareBytes(this, other) === 0;
      },
      compare(target, targetStart = 0, targetEnd = target?.length, sourceStart = 0, sourceEnd = this.length) {
        needBytes(target, "target");
        needInteger(targetStart, "targetStart", 0);
        needInteger(targetEnd, "targetEnd", 0, target.length);
        needInteger(sourceStart, "sourceStart", 0);
        needInteger(sourceEnd, "sourceEnd", 0, this.length);
        if (sourceStart >= sourceEnd) return targetStart >= targetEnd ? 0 : -1;
        if (targetStart >= targetEnd) return 1;
        return compareBytes(part(this, sourceStart, sourceEnd), part(target, targetStart, targetEnd));
      },
      copy(target, targetStart = 0, sourceStart = 0, sourceEnd = this.length) {
        needBytes(target, "target");
        const to = MathTrunc(+targetStart) || 0;
        const from = MathTrunc(+sourceStart) || 0;
        if (to < 0) throw outOfRange("targetStart", ">= 0", targetStart);
        if (from < 0 || from > this.length) throw outOfRange("sourceStart", `>= 0 && <= ${this.length}`, sourceStart);
        const wanted = MathTrunc(+sourceEnd) || 0;
        if (wanted < 0) throw outOfRange("sourceEnd", ">= 0", sourceEnd);
        const room = TypedArrayPrototypeGetByteLength(target) - to;
        const count = MathMin(MathMin(wanted, TypedArrayPrototypeGetByteLength(this)) - from, room);
        if (count <= 0) return 0;
        TypedArrayPrototypeSet(target, part(this, from, from + count), to);
        return count;
      },
      toJSON() {
        const data = [];
        for (let i = 0; i < this.length; i++) data[i] = this[i];
        return { type: "Buffer", data };
      },
      swap16() {
        return swap(this, 2);
      },
      swap32() {
        return swap(this, 4);
      },
      swap64() {
        return swap(this, 8);
      },
      get parent() {
        return isBuffer(this) ? this.buffer : undefined;
      },
      get offset() {
        return isBuffer(this) ? this.byteOffset : undefined;
      },
    };

    function swap(bytes, size) {
      const { length } = bytes;
      if (length % size !== 0) {
        throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${size * 8}-bits`);
      }
      for (let at = 0; at < length; at += size) {
        for (let low = at, high = at + size - 1; low < high; low++, high--) {
          const byte = bytes[low];
          bytes[low] = bytes[high];
          bytes[high] = byte;
        }
      }
      return bytes;
    }

    // The methods are enumerable, because packages enumerate them.
    const define = (members) => ObjectDefineProperties(Buffer.prototype, ObjectGetOwnPropertyDescriptors(members));
    define(methods);
    const text = internal.use("bufferText")({ FastBuffer, isBytes, needBytes, part });
    define(text.methods);
    define(internal.use("bufferNumbers")());
    defineHidden(Buffer.prototype, { [INSPECT]: text.inspect });

    const { Blob, File } = internal.blobs();
    return {
      Buffer: /** @type {typeof Buffer & Members} */ (Buffer),
      SlowBuffer: statics.allocUnsafeSlow,
      Blob,
      File,
      atob,
      btoa,
      constants: { MAX_LENGTH, MAX_STRING_LENGTH: MAX_STRING },
      kMaxLength: MAX_LENGTH,
      kStringMaxLength: MAX_STRING,
      INSPECT_MAX_BYTES: 50,
      isAscii: text.isAscii,
      isUtf8: text.isUtf8,
      transcode: text.transcode,
    };
  });
})
