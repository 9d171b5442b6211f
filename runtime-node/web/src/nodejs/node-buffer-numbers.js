// node:buffer: the methods of a Buffer that read and write numbers: integers of one to six bytes,
// 64-bit integers as BigInts, and floating-point numbers, little-endian (LE) or big-endian (BE).
//: module
(function (internal) {
  "use strict";

  const {
    BigInt64Array, BigUint64Array, Float32Array, Float64Array, MathTrunc, RangeError, ReflectOwnKeys, StringPrototypeReplaceAll,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetBuffer, Uint8Array,
  } = internal.primordials;

  internal.define("bufferNumbers", () => () => {
    const { coded, invalid, outOfRange } = internal.node;
    /** @type {Methods} */
    const methods = {};

    function addMethods(made) {
      const names = ReflectOwnKeys(made);
      for (let i = 0; i < names.length; i++) methods[names[i]] = made[names[i]];
    }

    function check(offset, size, length) {
      if (typeof offset !== "number") throw invalid("offset", "of type number", offset);
      if (offset >= 0 && offset + size <= length && offset % 1 === 0) return;
      if (offset % 1 !== 0) throw outOfRange("offset", "an integer", offset);
      if (length < size) {
        throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
      }
      throw outOfRange("offset", `>= 0 and <= ${length - size}`, offset);
    }

    function checkSize(size) {
      if (typeof size !== "number") throw invalid("byteLength", "of type number", size);
      if (size % 1 !== 0) throw outOfRange("byteLength", "an integer", size);
      if (size < 1 || size > 6) throw outOfRange("byteLength", ">= 1 and <= 6", size);
    }

    // ---- Integers

    function read(bytes, offset, size, isBigEndian, isSigned) {
      check(offset, size, TypedArrayPrototypeGetByteLength(bytes));
      let value = 0;
      for (let i = 0; i < size; i++) value = value * 256 + bytes[isBigEndian ? offset + i : offset + size - 1 - i];
      return isSigned && value >= 2 ** (8 * size - 1) ? value - 2 ** (8 * size) : value;
    }

    function write(bytes, given, offset, size, isBigEndian, isSigned) {
      let value = +given;
      const max = 2 ** (isSigned ? 8 * size - 1 : 8 * size) - 1;
      const min = isSigned ? -max - 1 : 0;
      if (value > max || value < min) {
        const range = size > 3
          ? isSigned ? `>= -(2 ** ${8 * size - 1}) and < 2 ** ${8 * size - 1}` : `>= 0 and < 2 ** ${8 * size}`
          : `>= ${min} and <= ${max}`;
        throw outOfRange("value", range, value);
      }
      check(offset, size, TypedArrayPrototypeGetByteLength(bytes));
      // The fraction is dropped before a negative number becomes positive, so that both round
      // toward zero.
      value = MathTrunc(value);
      if (value < 0) value += 2 ** (8 * size);
      for (let i = 0; i < size; i++) {
        const byte = value % 256;
        bytes[isBigEndian ? offset + size - 1 - i : offset + i] = byte;
        value = (value - byte) / 256;
      }
      return offset + size;
    }

    const SIZES = [[1, "8", false], [2, "16LE", false], [2, "16BE", true], [4, "32LE", false], [4, "32BE", true]];
    for (let i = 0; i < SIZES.length; i++) {
      const { 0: size, 1: name, 2: isBigEndian } = SIZES[i];
      /** @type {Methods} */
      const made = {
        [`readUInt${name}`](offset = 0) {
          return read(this, offset, size, isBigEndian, false);
        },
        [`readInt${name}`](offset = 0) {
          return read(this, offset, size, isBigEndian, true);
        },
        [`writeUInt${name}`](value, offset = 0) {
          return write(this, value, offset, size, isBigEndian, false);
        },
        [`writeInt${name}`](value, offset = 0) {
          return write(this, value, offset, size, isBigEndian, true);
        },
      };
      addMethods(made);
    }

    for (let i = 0; i < 2; i++) {
      const isBigEndian = i === 1;
      const end = isBigEndian ? "BE" : "LE";
      /** @type {Methods} */
      const made = {
        [`readUInt${end}`](offset, byteLength) {
          checkSize(byteLength);
          return read(this, offset, byteLength, isBigEndian, false);
        },
        [`readInt${end}`](offset, byteLength) {
          checkSize(byteLength);
          return read(this, offset, byteLength, isBigEndian, true);
        },
        [`writeUInt${end}`](value, offset, byteLength) {
          checkSize(byteLength);
          return write(this, value, offset, byteLength, isBigEndian, false);
        },
        [`writeInt${end}`](value, offset, byteLength) {
          checkSize(byteLength);
          return write(this, value, offset, byteLength, isBigEndian, true);
        },
      };
      addMethods(made);
    }

    // ---- Numbers that a typed array converts; the platform is little-endian

    function addConverted(name, Kind, range) {
      const value = new Kind(1);
      const scratch = new Uint8Array(TypedArrayPrototypeGetBuffer(value));
      const size = scratch.length;
      for (let i = 0; i < 2; i++) {
        const isBigEndian = i === 1;
        const end = isBigEndian ? "BE" : "LE";
        /** @type {Methods} */
        const made = {
          [`read${name}${end}`](offset = 0) {
            check(offset, size, TypedArrayPrototypeGetByteLength(this));
            for (let at = 0; at < size; at++) scratch[isBigEndian ? size - 1 - at : at] = this[offset + at];
            return value[0];
          },
          [`write${name}${end}`](number, offset = 0) {
            if (range !== null) {
              if (typeof number !== "bigint") throw invalid("value", "of type bigint", number);
              if (number < range.min || number > range.max) throw outOfRange("value", range.text, number);
            }
            check(offset, size, TypedArrayPrototypeGetByteLength(this));
            value[0] = number;
            for (let at = 0; at < size; at++) this[offset + at] = scratch[isBigEndian ? size - 1 - at : at];
            return offset + size;
          },
        };
        addMethods(made);
      }
    }
    addConverted("Float", Float32Array, null);
    addConverted("Double", Float64Array, null);
    addConverted("BigInt64", BigInt64Array, {
      min: -(2n ** 63n), max: 2n ** 63n - 1n, text: ">= -(2n ** 63n) and < 2n ** 63n",
    });
    addConverted("BigUInt64", BigUint64Array, { min: 0n, max: 2n ** 64n - 1n, text: ">= 0n and < 2n ** 64n" });

    // `readUint8` is an alias of `readUInt8`, and so on.
    /** @type {any[]} */
    const names = ReflectOwnKeys(methods);
    for (let i = 0; i < names.length; i++) methods[StringPrototypeReplaceAll(names[i], "UInt", "Uint")] = methods[names[i]];
    return methods;
  });
})
