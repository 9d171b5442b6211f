// Array functions whose work depends on the elements and not only on their number (see bounds.js):
// comparisons of long strings, and nested arrays.
//: after bounds-arrays.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ArrayPrototype, ArrayPrototypeIncludes, ArrayPrototypeIndexOf, FunctionPrototypeCall, MathMax, MathMin,
    MathTrunc, Object, ObjectDefineProperty, ObjectGetPrototypeOf, ReflectApply, SymbolIsConcatSpreadable,
  } = internal.primordials;
  const { isProxy, replace } = internal.bounds;
  const { MANY, wrapInProxy, isBounded, lengthOf, visit } = internal.bounds.arrays;
  const { concat, flat, flatMap, includes, indexOf, lastIndexOf, sort, toSorted } = ArrayPrototype;

  // ---- Searches. Strings of equal length are compared from the start and may differ only at
  // the end.

  // Native code compares this many characters in tens of milliseconds.
  const MAX_COMPARED = 2 ** 26;

  const isComparable = (list, element) =>
    isBounded(list) && (typeof element !== "string" || element.length * list.length <= MAX_COMPARED);

  // Converts a relative index argument to an index of a list of this length.
  function toIndex(argument, length) {
    const from = MathTrunc(+argument) || 0;
    return from < 0 ? from + length : from;
  }
  // Returns the index of a string in a list. A termination takes effect between any two
  // comparisons.
  function seek(list, text, from) {
    for (let i = MathMax(toIndex(from, list.length), 0); i < list.length; i++) {
      if (list[i] === text) return i;
    }
    return -1;
  }
  function seekBack(list, text, args) {
    const last = list.length - 1;
    for (let i = args.length > 1 ? MathMin(toIndex(args[1], list.length), last) : last; i >= 0; i--) {
      if (list[i] === text) return i;
    }
    return -1;
  }

  // ---- Sorting by the string values of the elements

  // The limits on lists that are sorted natively, in characters and in elements.
  const MAX_CHARACTERS = 2 ** 22;
  const MAX_ELEMENTS = 2 ** 16;

  function isLight(list) {
    if (!ArrayIsArray(list) || list.length > MAX_ELEMENTS) return false;
    let characters = 0;
    for (let i = 0; i < list.length; i++) {
      const element = list[i];
      if (typeof element === "string") characters += element.length;
      else if (typeof element === "object" && element !== null) return false;
    }
    return characters <= MAX_CHARACTERS;
  }
  // Compares two elements in the native order. Each comparison is a call, where a termination takes
  // effect.
  function byText(a, b) {
    const one = `${a}`;
    const other = `${b}`;
    return one < other ? -1 : one > other ? 1 : 0;
  }
  const order = (list, args) => (args[0] === undefined && !isLight(list) ? [byText] : args);

  // ---- Nested arrays

  // Returns the number of elements that are visited to flatten a list, or any number above `most`.
  function countElements(list, depth, most) {
    let count = list.length;
    for (let i = 0; i < list.length && count <= most; i++) {
      const element = list[i];
      if (!ArrayIsArray(element)) continue;
      if (isProxy(element)) return most + 1;
      count += depth > 1 ? countElements(element, depth - 1, most - count) : element.length;
    }
    return count;
  }
  // Flattens as the native function does, in a JavaScript loop.
  function flatten(result, list, depth) {
    const length = lengthOf(list);
    for (let i = 0; i < length; i++) {
      if (!(i in list)) continue;
      const element = list[i];
      if (depth > 0 && ArrayIsArray(element)) flatten(result, element, depth - 1);
      else append(result, result.length, element);
    }
    return result;
  }
  // Creates the empty result of `native` for `list` (ArraySpeciesCreate), which depends on the
  // list's constructor.
  function species(list, native) {
    const like = [];
    if (ArrayIsArray(list)) define(like, "constructor", list.constructor);
    return ReflectApply(native, like, []);
  }
  const isPlain = (result) => ObjectGetPrototypeOf(result) === ArrayPrototype;
  // Assigns an element of a plain array. Defines an element of an instance of a subclass, whose
  // setters must not run.
  function append(result, at, element) {
    if (isPlain(result)) result[at] = element;
    else define(result, at, element);
  }
  function define(object, key, value) {
    ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }
  // Wraps the callback of `flatMap`, whose results are flattened by one level.
  const mapped = (callback, self) => (element, index, list) => {
    const result = FunctionPrototypeCall(callback, self, element, index, list);
    return ArrayIsArray(result) && !isBounded(result) ? wrapInProxy(result) : result;
  };

  // The maximum number of elements for native `concat`: an element of an array with holes takes
  // tens of nanoseconds.
  const MAX_APPENDED = 2 ** 22;

  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  // Returns whether `concat` spreads an argument (IsConcatSpreadable).
  function spreads(item) {
    if (!isObject(item)) return false;
    const spreadable = item[SymbolIsConcatSpreadable];
    return spreadable === undefined ? ArrayIsArray(item) : !!spreadable;
  }
  // Returns the number of elements that are appended, or Infinity if the argument must be visited
  // step by step.
  function appended(item) {
    if (!spreads(item)) return 1;
    return (ArrayIsArray(item) && !isProxy(item)) || isBounded(item) ? item.length : Infinity;
  }
  function appendTo(result, at, item) {
    if (!spreads(item)) {
      append(result, at, item);
      return at + 1;
    }
    const length = lengthOf(item);
    const assigns = isPlain(result);
    for (let i = 0; i < length; i++) {
      if (!(i in item)) continue;
      if (assigns) result[at + i] = item[i];
      else append(result, at + i, item[i]);
    }
    return at + length;
  }

  replace(ArrayPrototype, {
    concat(item) {
      let count = appended(this);
      for (let i = 0; i < arguments.length; i++) count += appended(arguments[i]);
      if (count <= MAX_APPENDED || this === undefined || this === null) return ReflectApply(concat, this, arguments);
      const result = species(this, concat);
      let length = appendTo(result, 0, this);
      for (let i = 0; i < arguments.length; i++) length = appendTo(result, length, arguments[i]);
      result.length = length;
      return result;
    },
    flat() {
      const depth = arguments[0] === undefined ? 1 : MathTrunc(+arguments[0]) || 0;
      if (this === undefined || this === null) return ReflectApply(flat, this, [depth]);
      if (isBounded(this) && countElements(this, depth, MANY) <= MANY) return ReflectApply(flat, this, [depth]);
      const list = Object(this);
      return flatten(species(list, flat), list, depth);
    },
    flatMap(callback) {
      if (typeof callback !== "function") return ReflectApply(flatMap, this, arguments);
      const args = [mapped(callback, arguments[1])];
      return isBounded(this) ? ReflectApply(flatMap, this, args) : visit(flatMap, this, args);
    },
    includes(element, from = undefined) {
      if (isComparable(this, element)) return ArrayPrototypeIncludes(this, element, from);
      return isBounded(this) ? seek(this, element, from) >= 0 : visit(includes, this, [element, from]);
    },
    indexOf(element, from = undefined) {
      if (isComparable(this, element)) return ArrayPrototypeIndexOf(this, element, from);
      return isBounded(this) ? seek(this, element, from) : visit(indexOf, this, [element, from]);
    },
    lastIndexOf(element) {
      if (isComparable(this, element)) return ReflectApply(lastIndexOf, this, arguments);
      return isBounded(this) ? seekBack(this, element, arguments) : visit(lastIndexOf, this, arguments);
    },
    sort(compare) {
      return isBounded(this) ? ReflectApply(sort, this, order(this, arguments)) : visit(sort, this, order(this, arguments));
    },
    toSorted(compare) {
      const args = order(this, arguments);
      return isBounded(this) ? ReflectApply(toSorted, this, args) : visit(toSorted, this, args);
    },
  });
})
