// Deep equality of node:util and node:assert. Both equalities compare the kinds of objects. Strict
// equality also compares their prototypes, and compares primitives with `Object.is`; loose equality
// compares primitives with `==`, but NaN equals NaN.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayPrototypePop, ArrayPrototypePush, BigIntPrototypeValueOf, BooleanPrototypeValueOf, DatePrototypeGetTime, MapPrototypeForEach, MapPrototypeGet, MapPrototypeGetSize,
    MapPrototypeHas, NumberPrototypeValueOf, ObjectGetPrototypeOf, ObjectIs, ObjectPrototypePropertyIsEnumerable,
    ReflectOwnKeys, RegExpPrototypeGetSource, SetPrototypeForEach, SetPrototypeGetSize, SetPrototypeHas,
    StringPrototypeValueOf, SymbolPrototypeValueOf, SymbolToStringTag, TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, Uint8Array,
  } = internal.primordials;
  const { bufferSource, isObject } = internal.webidl;

  internal.define("equality", () => {
    const kindOf = (value) => {
      const kind = internal.ops.kindOf(value);
      if (kind !== "object") return kind;
      if (ArrayBufferIsView(value)) return "dataview";
      return internal.ops.isKind(value, "BigIntObject") ? "bigintobject" : kind;
    };

    // Returns the enumerable keys of an object: strings, and with `withSymbols` also symbols.
    const enumerable = (object, withSymbols) => {
      const keys = ReflectOwnKeys(object);
      const found = [];
      for (let i = 0; i < keys.length; i++) {
        if (!withSymbols && typeof keys[i] === "symbol") continue;
        if (ObjectPrototypePropertyIsEnumerable(object, keys[i])) ArrayPrototypePush(found, keys[i]);
      }
      return found;
    };

    class Comparison {
      // The pairs that are being compared. A cycle that occurs at the same place on both sides is
      // equal.
      path = [];
      constructor(strict) {
        this.strict = strict;
      }

      equal(a, b) {
        if (a === b) return a !== 0 || !this.strict || ObjectIs(a, b);
        if (!isObject(a) || !isObject(b)) {
          if (this.strict || isObject(a) || isObject(b)) return ObjectIs(a, b);
          return a == b || (a !== a && b !== b);
        }
        if (typeof a === "function" || typeof b === "function") return false;
        for (let i = 0; i < this.path.length; i += 2) {
          if (this.path[i] === a || this.path[i + 1] === b) return this.path[i] === a && this.path[i + 1] === b;
        }
        ArrayPrototypePush(this.path, a);
        ArrayPrototypePush(this.path, b);
        const equal = this.objects(a, b);
        ArrayPrototypePop(this.path);
        ArrayPrototypePop(this.path);
        return equal;
      }

      objects(a, b) {
        if (this.strict) {
          if (ObjectGetPrototypeOf(a) !== ObjectGetPrototypeOf(b)) return false;
          if (a[SymbolToStringTag] !== b[SymbolToStringTag]) return false;
        }
        const kind = kindOf(a);
        if (kind !== kindOf(b)) return false;
        return this.contents(kind, a, b) && this.properties(a, b, kind === "typedarray" ? TypedArrayPrototypeGetLength(a) : 0);
      }

      contents(kind, a, b) {
        switch (kind) {
          case "array": return a.length === b.length;
          case "typedarray": return this.views(a, b);
          case "arraybuffer": return this.bytes(new Uint8Array(a), new Uint8Array(b));
          case "dataview": return this.bytes(bufferSource(a), bufferSource(b));
          case "date": return ObjectIs(DatePrototypeGetTime(a), DatePrototypeGetTime(b));
          case "regexp":
            return RegExpPrototypeGetSource(a) === RegExpPrototypeGetSource(b) &&
              internal.flagsOf(a) === internal.flagsOf(b) && a.lastIndex === b.lastIndex;
          case "error":
            return a.name === b.name && a.message === b.message && this.equal(a.cause, b.cause) &&
              this.equal(a.errors, b.errors);
          case "map": return this.maps(a, b);
          case "set": return this.sets(a, b);
          case "stringobject": return StringPrototypeValueOf(a) === StringPrototypeValueOf(b);
          case "numberobject": return ObjectIs(NumberPrototypeValueOf(a), NumberPrototypeValueOf(b));
          case "booleanobject": return BooleanPrototypeValueOf(a) === BooleanPrototypeValueOf(b);
          case "symbolobject": return SymbolPrototypeValueOf(a) === SymbolPrototypeValueOf(b);
          case "bigintobject": return BigIntPrototypeValueOf(a) === BigIntPrototypeValueOf(b);
          // The contents of these objects are not observable, so distinct objects are not equal.
          // Proxies are compared by their properties.
          case "weakmap": case "weakset": case "promise": case "proxy": return kind === "proxy";
          default: return true;
        }
      }

      bytes(a, b) {
        const length = TypedArrayPrototypeGetByteLength(a);
        if (length !== TypedArrayPrototypeGetByteLength(b)) return false;
        for (let i = 0; i < length; i++) if (a[i] !== b[i]) return false;
        return true;
      }

      views(a, b) {
        if (TypedArrayPrototypeGetSymbolToStringTag(a) !== TypedArrayPrototypeGetSymbolToStringTag(b)) return false;
        const length = TypedArrayPrototypeGetLength(a);
        if (length !== TypedArrayPrototypeGetLength(b)) return false;
        for (let i = 0; i < length; i++) {
          if (this.strict ? !ObjectIs(a[i], b[i]) : a[i] !== b[i] && (a[i] === a[i] || b[i] === b[i])) return false;
        }
        return true;
      }

      properties(a, b, indexed) {
        // Loose equality compares only the elements of typed arrays, and strict equality only those
        // of long ones: enumerating the indices would create a string for each index.
        if (indexed > 0 && !this.strict) return true;
        const keys = indexed > 10_000 ? [] : enumerable(a, this.strict);
        if (keys.length !== (indexed > 10_000 ? 0 : enumerable(b, this.strict).length)) return false;
        for (let i = 0; i < keys.length; i++) {
          if (!ObjectPrototypePropertyIsEnumerable(b, keys[i]) || !this.equal(a[keys[i]], b[keys[i]])) return false;
        }
        return true;
      }

      sets(a, b) {
        if (SetPrototypeGetSize(a) !== SetPrototypeGetSize(b)) return false;
        const unmatched = [];
        SetPrototypeForEach(b, (item) => {
          if (!SetPrototypeHas(a, item)) ArrayPrototypePush(unmatched, item);
        });
        let equal = true;
        SetPrototypeForEach(a, (item) => {
          if (equal && !SetPrototypeHas(b, item)) equal = this.take(unmatched, (other) => this.equal(item, other));
        });
        return equal;
      }

      maps(a, b) {
        if (MapPrototypeGetSize(a) !== MapPrototypeGetSize(b)) return false;
        const unmatched = [];
        MapPrototypeForEach(b, (value, key) => {
          if (!MapPrototypeHas(a, key)) ArrayPrototypePush(unmatched, { key, value });
        });
        let equal = true;
        MapPrototypeForEach(a, (value, key) => {
          if (!equal) return;
          equal = MapPrototypeHas(b, key) ? this.equal(value, MapPrototypeGet(b, key))
            : this.take(unmatched, (other) => this.equal(key, other.key) && this.equal(value, other.value));
        });
        return equal;
      }

      // Removes the first equal item from `unmatched`, so that no item matches twice.
      take(unmatched, isEqual) {
        for (let i = 0; i < unmatched.length; i++) {
          if (!isEqual(unmatched[i])) continue;
          unmatched[i] = unmatched[unmatched.length - 1];
          ArrayPrototypePop(unmatched);
          return true;
        }
        return false;
      }
    }

    return {
      isDeepEqual: (a, b) => new Comparison(false).equal(a, b),
      isDeepStrictEqual: (a, b) => new Comparison(true).equal(a, b),
    };
  });
})
