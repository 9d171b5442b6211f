// The functions that list an object's properties, and those that go over a whole set (see bounds.js).
//
// An object has at most as many properties as it has had time and memory to make. But an array of numbers or the object of a
// string has millions for the asking, whose names are made one by one: a microsecond each.
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, Object, ObjectHasOwn, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, Set,
    SetPrototypeGetSize, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;
  const { each, isProxy, refuse, replace, targetOf } = internal.bounds;

  // So many names are listed in some hundredths of a second, and compared with others in less.
  const MANY = 2 ** 17;
  // The same of entries, each an object of its own.
  const FEW = 2 ** 14;
  // An array of this length is a dictionary of what it has.
  const SPARSE = 2 ** 25;

  // ---- Properties

  // How many places there are in `value` that may have no cost but a length.
  function places(value) {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 0;
    // Without a trap it lists what its target has.
    if (isProxy(value)) return places(targetOf(value));
    if (ArrayIsArray(value)) return value.length <= SPARSE ? value.length : 0;
    if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) return TypedArrayPrototypeGetLength(value);
    if (!ObjectHasOwn(value, "length")) return 0;
    // That of a string's object is its own, and cannot be changed.
    const { value: length, writable } = ReflectGetOwnPropertyDescriptor(value, "length");
    return typeof length === "number" && !writable ? length : 0;
  }
  function check(value) {
    const length = places(value);
    if (length > MANY) refuse("An object with a length", length);
  }

  // What is no object is refused natively.
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

  // Whether both are sets, and not too large to be gone over natively.
  function areSmall(set, other) {
    try {
      return SetPrototypeGetSize(set) <= MANY && SetPrototypeGetSize(other) <= MANY;
    } catch {
      // What is no set is asked by calls. The set itself is not gone over unless the other says that it is larger.
      return false;
    }
  }
  // Asked in place of a set, so that each item is a call.
  function disguise(other) {
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
    difference(other) { return ReflectApply(difference, this, [areSmall(this, other) ? other : disguise(other)]); },
    intersection(other) { return ReflectApply(intersection, this, [areSmall(this, other) ? other : disguise(other)]); },
    isDisjointFrom(other) { return ReflectApply(isDisjointFrom, this, [areSmall(this, other) ? other : disguise(other)]); },
    isSubsetOf(other) { return ReflectApply(isSubsetOf, this, [areSmall(this, other) ? other : disguise(other)]); },
    isSupersetOf(other) { return ReflectApply(isSupersetOf, this, [areSmall(this, other) ? other : disguise(other)]); },
    symmetricDifference(other) { return ReflectApply(symmetricDifference, this, [areSmall(this, other) ? other : disguise(other)]); },
    union(other) { return ReflectApply(union, this, [areSmall(this, other) ? other : disguise(other)]); },
  });
})
