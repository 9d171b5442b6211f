// Functions of arrays that are too long for a native loop (see bounds.js), as JavaScript loops, in
// which a termination takes effect. They take about as long as the native functions, whereas a
// proxy would take many times longer.
//: after bounds.js
(function (internal) {
  "use strict";

  const {
    Array, ArrayIsArray, ArrayPrototype, FunctionPrototypeCall, Map, MapPrototypeGet, MathMax, MathMin, MathTrunc,
    SymbolSpecies, TypeError,
  } = internal.primordials;
  const { isProxy } = internal.bounds;

  // Objects with a greater length are sparse, and are refused.
  const TOO_MANY = 2 ** 25;

  // Returns whether the value is an array whose length is reliable, and for which functions create
  // plain arrays (ArraySpeciesCreate).
  const isLong = (value) =>
    ArrayIsArray(value) && !isProxy(value) && value.length <= TOO_MANY && value.constructor === Array && Array[SymbolSpecies] === Array;

  function checkCallback(value) {
    if (typeof value !== "function") throw new TypeError(`The callback is of type ${typeof value}, not a function`);
  }
  // Converts a relative index argument to an index of a list of this length.
  function toIndex(argument, length) {
    const index = MathTrunc(+argument) || 0;
    return index < 0 ? MathMax(length + index, 0) : MathMin(index, length);
  }

  // Each loop is written out, so that the compiler can optimize it. As the standard requires, the
  // length is read once, and most functions skip indices without an element.
  const { every, filter, find, findIndex, forEach, includes, indexOf, map, reduce, slice, some } = ArrayPrototype;
  /** @type {[Function, (list: any[], args: ArrayLike<any>) => any][]} */
  const loops = [
    [every, (list, args) => {
      const { length } = list, callback = args[0], self = args[1];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (i in list && !FunctionPrototypeCall(callback, self, list[i], i, list)) return false;
      }
      return true;
    }],
    [filter, (list, args) => {
      const { length } = list, callback = args[0], self = args[1], result = [];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (!(i in list)) continue;
        const element = list[i];
        if (FunctionPrototypeCall(callback, self, element, i, list)) result[result.length] = element;
      }
      return result;
    }],
    [find, (list, args) => {
      const { length } = list, callback = args[0], self = args[1];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        const element = list[i];
        if (FunctionPrototypeCall(callback, self, element, i, list)) return element;
      }
    }],
    [findIndex, (list, args) => {
      const { length } = list, callback = args[0], self = args[1];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (FunctionPrototypeCall(callback, self, list[i], i, list)) return i;
      }
      return -1;
    }],
    [forEach, (list, args) => {
      const { length } = list, callback = args[0], self = args[1];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (i in list) FunctionPrototypeCall(callback, self, list[i], i, list);
      }
    }],
    [includes, (list, args) => {
      const { length } = list, element = args[0], isNaN = element !== element;
      for (let i = toIndex(args[1], length); i < length; i++) {
        const other = list[i];
        if (other === element || (isNaN && other !== other)) return true;
      }
      return false;
    }],
    [indexOf, (list, args) => {
      const { length } = list, element = args[0];
      for (let i = toIndex(args[1], length); i < length; i++) {
        if (list[i] === element && i in list) return i;
      }
      return -1;
    }],
    [map, (list, args) => {
      const { length } = list, callback = args[0], self = args[1], result = new Array(length);
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (i in list) result[i] = FunctionPrototypeCall(callback, self, list[i], i, list);
      }
      return result;
    }],
    [reduce, (list, args) => {
      const { length } = list, callback = args[0];
      checkCallback(callback);
      let i = 0, result = args[1];
      if (args.length < 2) {
        while (i < length && !(i in list)) i++;
        if (i === length) throw new TypeError("Reduce of empty array with no initial value");
        result = list[i++];
      }
      for (; i < length; i++) {
        if (i in list) result = callback(result, list[i], i, list);
      }
      return result;
    }],
    [slice, (list, args) => {
      const { length } = list, from = toIndex(args[0], length);
      const to = args[1] === undefined ? length : toIndex(args[1], length);
      const result = new Array(MathMax(to - from, 0));
      for (let i = from; i < to; i++) {
        if (i in list) result[i - from] = list[i];
      }
      return result;
    }],
    [some, (list, args) => {
      const { length } = list, callback = args[0], self = args[1];
      checkCallback(callback);
      for (let i = 0; i < length; i++) {
        if (i in list && FunctionPrototypeCall(callback, self, list[i], i, list)) return true;
      }
      return false;
    }],
  ];
  const byNative = new Map(loops);
  const loopOf = (native) => MapPrototypeGet(byNative, native);

  internal.bounds.long = { __proto__: null, TOO_MANY, isLong, loopOf, toIndex };
})
