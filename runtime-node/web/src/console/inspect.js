// The formatting of values for `console`. It reads own property descriptors and internal slots
// only, so it never runs a getter, `toString` or proxy trap of a Worker, except those that V8 calls
// when it formats an error's stack. The size of the output is bounded.
//: after inspection.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferPrototypeGetByteLength, ArrayIsArray, ArrayPrototypeJoin, ArrayPrototypePop, ArrayPrototypePush,
    BooleanPrototypeValueOf, DatePrototypeGetTime, DatePrototypeToISOString, Map, MapPrototypeForEach,
    MapPrototypeGet, MapPrototypeGetSize, MapPrototypeSet, NumberIsNaN, NumberPrototypeValueOf,
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, RegExpPrototypeExec, RegExpPrototypeGetSource,
    SetPrototypeForEach, SetPrototypeGetSize, StringPrototypeIncludes, StringPrototypeRepeat, StringPrototypeValueOf,
    SymbolPrototypeValueOf, SymbolToStringTag, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;
  const {
    MAX_STRING, className, errorTitle, flagsOf, functionTitle, inheritedString, isEmpty, isObject, kindOf, ownData,
    primitive, propertyName, stackOf,
  } = internal.inspection;

  const MAX_DEPTH = 4;
  const MAX_ITEMS = 100;
  // The limit of the output for one value, in characters. Beyond this limit, only the names of
  // objects are shown.
  const MAX_TOTAL = 64 * 1024;
  // The length of a line. Longer output is split into several lines.
  const WIDTH = 76;
  const INDEX = /^(?:0|[1-9]\d*)$/;

  // ---- Layout

  let width = WIDTH;

  // Joins the parts, on one line if they fit.
  function braces(open, parts, close, depth) {
    let length = 2 * depth;
    let tall = false;
    for (let i = 0; i < parts.length; i++) {
      length += parts[i].length + 2;
      tall ||= StringPrototypeIncludes(parts[i], "\n");
    }
    if (!tall && length <= width) return `${open} ${ArrayPrototypeJoin(parts, ", ")} ${close}`;
    const indent = StringPrototypeRepeat("  ", depth + 1);
    const outdent = StringPrototypeRepeat("  ", depth);
    return `${open}\n${indent}${ArrayPrototypeJoin(parts, `,\n${indent}`)}\n${outdent}${close}`;
  }

  const titled = (title, open, parts, close, depth) =>
    `${title === "" ? "" : `${title} `}${parts.length === 0 ? `${open}${close}` : braces(open, parts, close, depth)}`;

  const more = (parts, left) => {
    if (left > 0) ArrayPrototypePush(parts, `... ${left} more item${left === 1 ? "" : "s"}`);
  };

  // ---- Values with parts

  // (value) → null, or {title, entries}, where entries is a flat list [label, value, …].
  const { describers } = internal;

  class Inspector {
    total = 0;
    // The objects that are being shown, outermost first, and the numbers of the objects that
    // contain themselves.
    path = [];
    references = new Map();
    depth = MAX_DEPTH;
    items = MAX_ITEMS;
    // (value, depth) → the object's own representation, or undefined.
    custom = null;

    show(value, depth) {
      const shown = isObject(value) ? this.object(value, depth) : primitive(value);
      this.total += shown.length;
      return shown;
    }

    object(value, depth) {
      const kind = kindOf(value);
      if (kind === "proxy") return typeof value === "function" ? "[Proxy (function)]" : "[Proxy]";
      for (let i = 0; i < this.path.length; i++) {
        if (this.path[i] !== value) continue;
        let number = MapPrototypeGet(this.references, value);
        if (number === undefined) {
          number = MapPrototypeGetSize(this.references) + 1;
          MapPrototypeSet(this.references, value, number);
        }
        return `[Circular *${number}]`;
      }
      if (this.custom !== null) {
        const shown = this.custom(value, depth);
        if (shown !== undefined) return shown;
      }
      const name = className(value);
      if (this.total > MAX_TOTAL || (depth > this.depth && !isEmpty(value, kind, name))) {
        return `[${ArrayIsArray(value) ? "Array" : name ?? "Object"}]`;
      }
      ArrayPrototypePush(this.path, value);
      const shown = this.parts(value, kind, name, depth);
      ArrayPrototypePop(this.path);
      const number = MapPrototypeGet(this.references, value);
      return number === undefined ? shown : `<ref *${number}> ${shown}`;
    }

    parts(value, kind, name, depth) {
      switch (kind) {
        case "function": return this.bracketed(functionTitle(value), value, depth, ["prototype"]);
        case "array": return this.array(value, value.length, name === "Array" ? "" : `${name}(${value.length})`, depth);
        case "typedarray": {
          const length = TypedArrayPrototypeGetLength(value);
          return this.array(value, length, `${name ?? TypedArrayPrototypeGetSymbolToStringTag(value)}(${length})`, depth);
        }
        case "arguments": {
          const length = ownData(value, "length");
          return this.array(value, typeof length === "number" ? length : 0, "[Arguments]", depth);
        }
        case "error": {
          const { name, message } = internal.domExceptionParts(value) ?? {
            name: inheritedString(value, "name") ?? "Error", message: inheritedString(value, "message") ?? "",
          };
          return this.error(errorTitle(value, name, message), value, depth);
        }
        case "map": {
          const parts = [];
          MapPrototypeForEach(value, (item, key) => {
            if (this.full(parts)) return;
            ArrayPrototypePush(parts, `${this.show(key, depth + 1)} => ${this.show(item, depth + 1)}`);
          });
          const size = MapPrototypeGetSize(value);
          more(parts, size - parts.length);
          return titled(`${name ?? "Map"}(${size})`, "{", parts, "}", depth);
        }
        case "set": {
          const parts = [];
          SetPrototypeForEach(value, (item) => {
            if (!this.full(parts)) ArrayPrototypePush(parts, this.show(item, depth + 1));
          });
          const size = SetPrototypeGetSize(value);
          more(parts, size - parts.length);
          return titled(`${name ?? "Set"}(${size})`, "{", parts, "}", depth);
        }
        case "date": return NumberIsNaN(DatePrototypeGetTime(value)) ? "Invalid Date" : DatePrototypeToISOString(value);
        case "regexp": return `/${RegExpPrototypeGetSource(value)}/${flagsOf(value)}`;
        case "promise": {
          const { state, result } = internal.ops.promiseDetails(value);
          const part = state === "pending" ? "<pending>"
            : `${state === "rejected" ? "<rejected> " : ""}${this.show(result, depth + 1)}`;
          return titled(name ?? "Promise", "{", [part], "}", depth);
        }
        case "arraybuffer": {
          const part = `byteLength: ${ArrayBufferPrototypeGetByteLength(value)}`;
          return titled(name ?? "ArrayBuffer", "{", [part], "}", depth);
        }
        case "weakmap": case "weakset": return `${name ?? kind} { <items unknown> }`;
        case "stringobject": return this.boxed("String", StringPrototypeValueOf(value), value, depth);
        case "numberobject": return this.boxed("Number", NumberPrototypeValueOf(value), value, depth);
        case "booleanobject": return this.boxed("Boolean", BooleanPrototypeValueOf(value), value, depth);
        case "symbolobject": return this.boxed("Symbol", SymbolPrototypeValueOf(value), value, depth);
      }
      return this.plain(value, kind, name, depth);
    }

    plain(value, kind, name, depth) {
      for (let i = 0; i < describers.length; i++) {
        const described = describers[i](value);
        if (described === null) continue;
        const parts = [];
        const { entries } = described;
        for (let j = 0; j < entries.length && !this.full(parts); j += 2) {
          ArrayPrototypePush(parts, `${propertyName(entries[j])}: ${this.show(entries[j + 1], depth + 1)}`);
        }
        more(parts, entries.length / 2 - parts.length);
        return titled(described.title, "{", parts, "}", depth);
      }
      let title = name === "Object" ? "" : name ?? "[Object: null prototype]";
      const tag = kind === "module" ? "Module" : inheritedString(value, SymbolToStringTag);
      if (tag !== null && tag !== "" && tag !== name) title = `${title === "" ? "Object" : title} [${tag}]`;
      const parts = [];
      this.properties(value, parts, depth);
      return titled(title, "{", parts, "}", depth);
    }

    full(parts) {
      return parts.length >= this.items || this.total > MAX_TOTAL;
    }

    // Adds own enumerable properties as "key: value", except those in `skip` and indices below
    // `indexed`.
    properties(value, parts, depth, skip = [], indexed = 0) {
      const keys = ReflectOwnKeys(value);
      let left = 0;
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i];
        let skipped = indexed > 0 && typeof key === "string" && RegExpPrototypeExec(INDEX, key) !== null &&
          +key < indexed;
        for (let j = 0; j < skip.length; j++) skipped ||= skip[j] === key;
        if (skipped) continue;
        const descriptor = ReflectGetOwnPropertyDescriptor(value, key);
        if (descriptor === undefined || !descriptor.enumerable) continue;
        if (this.full(parts)) left++;
        else ArrayPrototypePush(parts, `${propertyName(key)}: ${this.property(descriptor, depth)}`);
      }
      more(parts, left);
    }

    property(descriptor, depth) {
      if (descriptor.get !== undefined) return descriptor.set !== undefined ? "[Getter/Setter]" : "[Getter]";
      if (descriptor.set !== undefined) return "[Setter]";
      return this.show(descriptor.value, depth + 1);
    }

    // Shows the title alone if the value has no properties of its own.
    bracketed(title, value, depth, skip, indexed = 0) {
      const parts = [];
      this.properties(value, parts, depth, skip, indexed);
      return parts.length === 0 ? title : titled(title, "{", parts, "}", depth);
    }

    boxed(kind, inner, value, depth) {
      // Listing the keys of a long String object would create a string for each index.
      if (typeof inner === "string" && inner.length > MAX_STRING) return `[${kind}: ${primitive(inner)}]`;
      const indexed = typeof inner === "string" ? inner.length : 0;
      return this.bracketed(`[${kind}: ${primitive(inner)}]`, value, depth, [], indexed);
    }

    error(title, value, depth) {
      const parts = [];
      this.properties(value, parts, depth, ["stack", "message", "name"]);
      const hidden = ["cause", "errors"];
      for (let i = 0; i < hidden.length; i++) {
        const descriptor = ReflectGetOwnPropertyDescriptor(value, hidden[i]);
        if (descriptor === undefined || descriptor.enumerable) continue;
        ArrayPrototypePush(parts, `[${hidden[i]}]: ${this.property(descriptor, depth)}`);
      }
      return parts.length === 0 ? title : titled(title, "{", parts, "}", depth);
    }

    array(value, length, title, depth) {
      const parts = [];
      let i = 0, holes = 0;
      const addHoles = () => {
        if (holes > 0) ArrayPrototypePush(parts, `<${holes} empty item${holes === 1 ? "" : "s"}>`);
        holes = 0;
      };
      for (; i < length && !this.full(parts); i++) {
        const descriptor = ReflectGetOwnPropertyDescriptor(value, i);
        if (descriptor !== undefined) {
          addHoles();
          ArrayPrototypePush(parts, this.property(descriptor, depth));
        } else if (++holes > MAX_STRING) {
          i++;
          break; // an array may have four billion holes
        }
      }
      addHoles();
      more(parts, length - i);
      // Listing the keys of a long typed array would create a string for each index.
      if (length <= MAX_STRING) this.properties(value, parts, depth, [], length);
      return titled(title, "[", parts, "]", depth);
    }
  }

  internal.inspect = (value) => {
    try {
      return new Inspector().show(value, 0);
    } catch {
      // Only a stack overflow throws.
      return "[value that cannot be shown]";
    }
  };
  // Formats a value with other bounds, and with `custom`, which represents a Worker's own objects.
  internal.inspectWith = (value, { depth, items, breakLength, custom }) => {
    const inspector = new Inspector();
    inspector.depth = depth;
    inspector.items = items;
    inspector.custom = custom;
    const before = width;
    width = breakLength;
    try {
      return inspector.show(value, 0);
    } finally {
      width = before;
    }
  };
  internal.flagsOf = flagsOf;
  internal.stackOf = stackOf;
})
