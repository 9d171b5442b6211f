// Conversions of long inputs to numbers, times and bytes (see bounds.js).
//: after bounds-arrays.js
(function (internal) {
  "use strict";

  const {
    Date, MathTrunc, Number, Object, RangeError, ReflectApply, RegExpPrototypeExec, StringPrototypeCharCodeAt,
    StringPrototypeSlice, SymbolIterator, TypedArray, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, Uint8Array, parseInt,
  } = internal.primordials;
  const { each, refuse, replace } = internal.bounds;
  const { MANY, wrapInProxy, isBounded, lengthOf } = internal.bounds.arrays;

  // ---- Integers

  // Even in base 2, a finite number has at most a quarter of this number of digits.
  const MAX_DIGITS = 2 ** 12;
  const SIGN = /^\s*[+-]?/;
  const SIGN_AND_BASE = /^\s*[+-]?(?:0[xX])?/;

  // Skips leading zeros, and drops the digits after the first MAX_DIGITS, because a number with
  // that many digits is infinite.
  function parseLong(text, radix) {
    const base = radix | 0;
    // @ts-expect-error: the expressions match any text
    const { length } = RegExpPrototypeExec(base === 0 || base === 16 ? SIGN_AND_BASE : SIGN, text)[0];
    let at = length;
    while (StringPrototypeCharCodeAt(text, at) === 48) at++;
    // One zero remains, because it may be the only digit.
    if (at > length) at--;
    const beginning = StringPrototypeSlice(text, length < MAX_DIGITS ? 0 : length - 3, length);
    return parseInt(beginning + StringPrototypeSlice(text, at, at + MAX_DIGITS), base);
  }
  const integers = {
    parseInt(string, radix) {
      if (typeof string === "number") return parseInt(string, radix);
      const text = typeof string === "string" ? string : `${string}`;
      return text.length <= MAX_DIGITS ? parseInt(text, radix) : parseLong(text, radix);
    },
  };
  replace(globalThis, integers);
  replace(Number, integers);

  // ---- Times

  // A valid time has a few dozen characters. A longer string is not a time.
  const MAX_TIME = 2 ** 10;
  const { parse } = Date;
  replace(Date, {
    parse(string) {
      const text = typeof string === "string" ? string : `${string}`;
      return text.length <= MAX_TIME ? parse(text) : NaN;
    },
  });

  // ---- Typed arrays

  const isTyped = (value) => TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined;
  const isListed = (value) => isBounded(value) || (isTyped(value) && TypedArrayPrototypeGetLength(value) <= MANY);

  // Wraps a long iterable or array-like object so that native code calls JavaScript for each
  // element, and can be interrupted there.
  function stepped(items) {
    if (items === undefined || items === null || isListed(items)) return items;
    const iterates = items[SymbolIterator];
    return iterates === undefined || iterates === null ? wrapInProxy(items) : each(items);
  }
  const { from } = TypedArray;
  replace(TypedArray, {
    from(source) {
      const items = stepped(source);
      return ReflectApply(from, this, items === source ? arguments : [items, arguments[1], arguments[2]]);
    },
  });
  const { set } = TypedArray.prototype;
  // Sets elements as the native function does, in a JavaScript loop.
  function setSlowly(numbers, source, offset) {
    const room = TypedArrayPrototypeGetLength(numbers);
    const start = MathTrunc(+offset) || 0;
    if (start < 0) throw new RangeError("offset is out of bounds");
    const list = Object(source);
    const length = lengthOf(list);
    if (start + length > room) throw new RangeError("offset is out of bounds");
    for (let i = 0; i < length; i++) numbers[start + i] = list[i];
  }
  replace(TypedArray.prototype, {
    set(source) {
      const isNative = isTyped(source) || source === undefined || source === null || isBounded(source) || !isTyped(this);
      return isNative ? ReflectApply(set, this, arguments) : setSlowly(this, source, arguments[1]);
    },
  });

  // ---- Bytes as text

  // Native code reads or writes this many characters or bytes in tens of milliseconds.
  const MAX_TEXT = 2 ** 25;
  const check = (text) => (typeof text === "string" && text.length > MAX_TEXT ? refuse("A string", text.length) : text);
  const checkBytes = (bytes) => {
    if (isTyped(bytes) && TypedArrayPrototypeGetLength(bytes) > MAX_TEXT) refuse("A typed array", TypedArrayPrototypeGetLength(bytes));
  };
  const { fromBase64, fromHex } = Uint8Array;
  const { setFromBase64, setFromHex, toBase64, toHex } = Uint8Array.prototype;
  if (fromBase64 !== undefined) {
    replace(Uint8Array, {
      fromBase64(string) { return check(string), ReflectApply(fromBase64, this, arguments); },
      fromHex(string) { return check(string), ReflectApply(fromHex, this, arguments); },
    });
    replace(Uint8Array.prototype, {
      setFromBase64(string) { return check(string), ReflectApply(setFromBase64, this, arguments); },
      setFromHex(string) { return check(string), ReflectApply(setFromHex, this, arguments); },
      toBase64() { return checkBytes(this), ReflectApply(toBase64, this, arguments); },
      toHex() { return checkBytes(this), ReflectApply(toHex, this, arguments); },
    });
  }
})
