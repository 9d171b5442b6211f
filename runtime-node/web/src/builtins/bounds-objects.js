// Functions that list an object's properties or visit a whole set (see bounds.js).
//
// A Worker's time and memory limit the number of properties that it can create. But a typed array
// or a String object has millions of indices at no cost, and it takes a microsecond to create the
// name of each index.
//: after bounds.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, Object, ObjectHasOwn, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, Set,
    SetPrototypeGetSize, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;
  const { each, isProxy, refuse, replace, targetOf } = internal.bounds;

  // Native code lists this many names in tens of milliseconds, and visits as many items of a set in
  // less time.
  const MANY = 2 ** 17;
  // The limit on entries instead of names; each entry is an object.
  const FEW = 2 ** 14;
  // V8 stores an array of a greater length as a dictionary of its elements.
  const SPARSE = 2 ** 25;

  // ---- Properties

  // Returns the number of index properties of `value` that a Worker may have created at no cost.
  function countIndices(value) {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 0;
    // Without a trap, a proxy lists the properties of its target.
    if (isProxy(value)) return countIndices(targetOf(value));
    if (ArrayIsArray(value)) return value.length <= SPARSE ? value.length : 0;
    if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) return TypedArrayPrototypeGetLength(value);
    if (!ObjectHasOwn(value, "length")) return 0;
    // The length of a String object is an own property that is not writable.
    const { value: length, writable } = ReflectGetOwnPropertyDescriptor(value, "length");
    return typeof length === "number" && !writable ? length : 0;
  }
  function check(value) {
    const length = countIndices(value);
    if (length > MANY) refuse("An object", length);
  }

  // Native code refuses values that are not objects.
  const isFew = (items) => typeof items !== "object" || items === null || (ArrayIsArray(items) && !isProxy(items) && items.length <= FEW);

  const {
    assign, create, defineProperties, entries, fromEntries, getOwnPropertyDescriptors,
    getOwnPropertyNames, keys, values,
  } = Object;
  replace(Object, {
    assign(target, source) {
      for (let i = 1; i < arguments.length; i++) check(arguments[i]);
      return ReflectApply(assign, Object, arguments);
    },
    create(prototype, properties) { return check(properties), create(prototype, properties); },
    defineProperties(object, properties) { return check(properties), defineProperties(object, properties); },
    entries(object) { return check(object), entries(object); },
    fromEntries(entries) {
      return fromEntries(isFew(entries) ? entries : each(entries));
    },
    getOwnPropertyDescriptors(object) { return check(object), getOwnPropertyDescriptors(object); },
    getOwnPropertyNames(object) { return check(object), getOwnPropertyNames(object); },
    keys(object) { return check(object), keys(object); },
    values(object) { return check(object), values(object); },
  });
  replace(globalThis.Reflect, {
    ownKeys(target) { return check(target), ReflectOwnKeys(target); },
  });

  // ---- Sets

  // Returns whether both values are sets that are small enough for native code.
  function areSmall(set, other) {
    try {
      return SetPrototypeGetSize(set) <= MANY && SetPrototypeGetSize(other) <= MANY;
    } catch {
      // One of the values is not a Set; `wrapSet` makes each access to `other` a call. Native code
      // visits `set` only if `other` reports a larger size.
      return false;
    }
  }
  // Wraps a set so that each access to an item is a call.
  function wrapSet(other) {
    if (typeof other !== "object" && typeof other !== "function" || other === null) return other;
    return {
      __proto__: null,
      get size() { return other.size; },
      get has() {
        const { has } = other;
        return typeof has === "function" ? (item) => ReflectApply(has, other, [item]) : has;
      },
      get keys() {
        const { keys: listed } = other;
        return typeof listed !== "function" ? listed : () => {
          const items = ReflectApply(listed, other, []);
          const { next } = items;
          return {
            __proto__: null,
            next: () => ReflectApply(next, items, []),
            get return() {
              const { return: end } = items;
              return typeof end === "function" ? () => ReflectApply(end, items, []) : end;
            },
          };
        };
      },
    };
  }
  const {
    difference, intersection, isDisjointFrom, isSubsetOf, isSupersetOf, symmetricDifference, union,
  } = Set.prototype;
  replace(Set.prototype, {
    difference(other) { return ReflectApply(difference, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    intersection(other) { return ReflectApply(intersection, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    isDisjointFrom(other) { return ReflectApply(isDisjointFrom, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    isSubsetOf(other) { return ReflectApply(isSubsetOf, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    isSupersetOf(other) { return ReflectApply(isSupersetOf, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    symmetricDifference(other) { return ReflectApply(symmetricDifference, this, [areSmall(this, other) ? other : wrapSet(other)]); },
    union(other) { return ReflectApply(union, this, [areSmall(this, other) ? other : wrapSet(other)]); },
  });
})
