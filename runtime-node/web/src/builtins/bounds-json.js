// JSON.parse and JSON.stringify of long input (see bounds.js). V8 parses a JSON text without
// interruption. A long text is cut into pieces, which are parsed natively one after another. Each
// piece consists of members of one array or object. A member that is itself a long array or object
// is cut in the same way.
//
//   { "id": 1, "name": "…", "rows": [ [1, 2], [3, 4], … ], "end": true }
//     ╰─────── a piece ───╯         ╰ a piece ╯  ╰ …      ╰ a piece ╯
//: after bounds.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ArrayPrototypeFlat, JSONParse, JSONStringify, Map, MapPrototypeGet, MapPrototypeSet, ObjectDefineProperty,
    ReflectOwnKeys, StringPrototypeCharCodeAt, StringPrototypeSlice, SyntaxError, TypedArrayPrototypeGetLength,
    TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;
  const { isProxy, refuse, replace } = internal.bounds;

  // The lengths of a text, and of a piece, that are parsed in tens of milliseconds at worst.
  const LONG = 2 ** 20;
  const PIECE = 2 ** 16;
  // The maximum lengths of a text with a reviver, which is called for each value with its source
  // text, and of any other text.
  const TOO_LONG_TO_REVIVE = 2 ** 21;
  const TOO_LONG = 2 ** 24;
  // The maximum length of strings, typed arrays and lists of keys in `JSON.stringify`: native code
  // takes tens of nanoseconds for each character or element.
  const MANY = 2 ** 20;

  const [QUOTE, BACKSLASH, COMMA, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [34, 92, 44, 91, 93, 123, 125];
  const isBlank = (code) => code === 32 || code === 10 || code === 13 || code === 9;
  function malformed(at) {
    throw new SyntaxError(`Unexpected text in JSON at position ${at}`);
  }

  // Returns the position of the closing quote of the string that begins at `at`.
  function closingQuote(text, at) {
    for (let i = at + 1; i < text.length; i++) {
      const code = StringPrototypeCharCodeAt(text, i);
      if (code === QUOTE) return i;
      if (code === BACKSLASH) i++;
    }
    return malformed(text.length);
  }
  function afterBlanks(text, at) {
    while (isBlank(StringPrototypeCharCodeAt(text, at))) at++;
    return at;
  }

  // Maps the start of each long array and object to its end.
  function findLong(text) {
    const ends = new Map();
    // A stack of the starts of open arrays and objects, without a prototype.
    const open = { __proto__: null };
    let depth = 0;
    for (let i = 0; i < text.length; i++) {
      const code = StringPrototypeCharCodeAt(text, i);
      if (code === QUOTE) {
        i = closingQuote(text, i);
      } else if (code === OPEN || code === OPEN_LIST) {
        open[depth++] = i;
      } else if (code === CLOSE || code === CLOSE_LIST) {
        if (depth === 0) malformed(i);
        const start = open[--depth];
        if (i - start > PIECE) MapPrototypeSet(ends, start, i);
      }
    }
    return ends;
  }

  function put(object, key, value) {
    ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }

  // Parses the array or object from `start` to `end`.
  function build(text, ends, start, end) {
    const isList = StringPrototypeCharCodeAt(text, start) === OPEN_LIST;
    if ((StringPrototypeCharCodeAt(text, end) === CLOSE_LIST) !== isList) malformed(end);
    // A list is flattened from its pieces at the end. Without `constructor`, `flat` creates a plain
    // array even if a Worker has changed `Array`.
    /** @type {any} */
    const whole = isList ? [] : {};
    if (isList) put(whole, "constructor", undefined);
    const natively = (from, to) => {
      const piece = StringPrototypeSlice(text, from, to);
      return JSONParse(isList ? `[${piece}]` : `{${piece}}`);
    };
    let pieces = 0;
    const finished = () => (isList ? ArrayPrototypeFlat(whole) : whole);
    // Adds the members from `from` to `to`, at least one.
    function add(from, to) {
      const part = natively(from, to);
      const count = addAll(part);
      if (count === 0) malformed(to);
    }
    function addAll(part) {
      if (isList) {
        put(whole, pieces++, part);
        return part.length;
      }
      const keys = ReflectOwnKeys(part);
      for (let i = 0; i < keys.length; i++) put(whole, keys[i], part[keys[i]]);
      return keys.length;
    }

    // The text from `from` on has been scanned and not yet parsed: it is whole members up to the
    // last comma, at `comma`, and the text after this comma. `comma` is -1 if there is none.
    let from = start + 1;
    let comma = -1;
    for (let i = from; i < end; i++) {
      const code = StringPrototypeCharCodeAt(text, i);
      if (code === QUOTE) {
        i = closingQuote(text, i);
      } else if (code === COMMA) {
        comma = i;
        if (i - from > PIECE) {
          add(from, i);
          from = i + 1;
          comma = -1;
        }
      } else if (code === OPEN || code === OPEN_LIST) {
        const last = MapPrototypeGet(ends, i);
        if (last === undefined) {
          i = skip(text, i, end);
          continue;
        }
        if (comma !== -1) {
          add(from, comma);
          from = comma + 1;
          comma = -1;
        }
        if (isList && afterBlanks(text, from) !== i) malformed(i);
        const key = isList ? pieces++ : keyOf(StringPrototypeSlice(text, from, i), i);
        const member = build(text, ends, i, last);
        put(whole, key, isList ? [member] : member);
        i = afterBlanks(text, last + 1);
        if (i === end) return finished();
        if (StringPrototypeCharCodeAt(text, i) !== COMMA) malformed(i);
        from = i + 1;
      }
    }
    // The brackets may enclose only blanks, but a member must follow a comma.
    if (from === start + 1) addAll(natively(from, end));
    else add(from, end);
    return finished();
  }

  // Returns the end of the short array or object that begins at `at`.
  function skip(text, at, end) {
    let depth = 0;
    for (let i = at; i < end; i++) {
      const code = StringPrototypeCharCodeAt(text, i);
      if (code === QUOTE) i = closingQuote(text, i);
      else if (code === OPEN || code === OPEN_LIST) depth++;
      else if ((code === CLOSE || code === CLOSE_LIST) && --depth === 0) return i;
    }
    return malformed(end);
  }

  // Returns the key in `"key":`.
  function keyOf(piece, at) {
    const keys = ReflectOwnKeys(JSONParse(`{${piece} 0}`));
    return keys.length === 1 ? keys[0] : malformed(at);
  }

  function parseLong(text) {
    if (text.length > TOO_LONG) refuse("A JSON text", text.length);
    const start = afterBlanks(text, 0);
    const first = StringPrototypeCharCodeAt(text, start);
    if (first !== OPEN && first !== OPEN_LIST) return JSONParse(text);
    const ends = findLong(text);
    const end = MapPrototypeGet(ends, start);
    // The array or object is short but has many blanks around it, or it is not closed.
    if (end === undefined) return JSONParse(text);
    if (afterBlanks(text, end + 1) !== text.length) malformed(end + 1);
    return build(text, ends, start, end);
  }

  // Returns a list of keys, or a copy of it if it is a proxy. Refuses a list that is too long.
  function keysIn(list) {
    if (!ArrayIsArray(list) || (list.length <= MANY && !isProxy(list))) return list;
    const length = +list.length;
    if (length > MANY) refuse("A list of keys", length);
    const keys = [];
    for (let i = 0; i < length; i++) put(keys, i, list[i]);
    return keys;
  }

  replace(globalThis.JSON, {
    parse(text, reviver) {
      if (typeof text !== "string") text = `${text}`;
      if (text.length <= LONG) return reviver === undefined ? JSONParse(text) : JSONParse(text, reviver);
      if (typeof reviver !== "function") return parseLong(text);
      return text.length <= TOO_LONG_TO_REVIVE ? JSONParse(text, reviver) : refuse("A JSON text to revive", text.length);
    },
    stringify(value, replacer, space) {
      if (typeof value === "string") {
        if (value.length > MANY) refuse("A string", value.length);
      } else if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) {
        const length = TypedArrayPrototypeGetLength(value);
        if (length > MANY) refuse("A typed array", length);
      }
      return JSONStringify(value, typeof replacer === "object" ? keysIn(replacer) : replacer, space);
    },
  });
  // The platform's own code uses this function.
  internal.parseJSON = (text) => (text.length <= LONG ? JSONParse(text) : parseLong(text));
})
