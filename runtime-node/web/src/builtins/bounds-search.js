// Searches for a string in a string (see bounds.js). If the wanted string is long and nearly
// matches at every position, V8 compares the whole string at each position.
//
// A long search is done in pieces. Native code searches for the head of the wanted string only.
// Where the head is found, the rest is compared, again piece by piece.
//
//   text     aaaaaaaaaaaa│aaaaaaaaaaaa│aaaabaaaaaaa│aaaa
//            ╰── a stride ──╯ + the head's length
//: after bounds.js
(function (internal) {
  "use strict";

  const {
    MathMax, MathMin, MathTrunc, NumberIsNaN, ObjectDefineProperty, ReflectApply, RegExpPrototypeGetSource,
    StringPrototype, StringPrototypeIncludes, StringPrototypeIndexOf, StringPrototypeLastIndexOf, StringPrototypeSlice,
    SymbolMatch, TypeError,
  } = internal.primordials;
  const { refuse, replace } = internal.bounds;
  const { replace: replaceOnce } = StringPrototype;

  // Native code compares this many characters in tens of milliseconds.
  const MAX_COMPARED = 2 ** 26;
  // The maximum length of the head, and of each piece in which the rest is compared.
  const HEAD = 2 ** 9;
  const PIECE = 2 ** 22;

  // Returns whether native code may compare the whole wanted string at each position.
  const isQuick = (text, wanted) => (text.length - wanted.length) * wanted.length <= MAX_COMPARED;

  const headOf = (wanted) => (wanted.length <= HEAD ? wanted : StringPrototypeSlice(wanted, 0, HEAD));
  // Returns whether the rest of `wanted` follows its head.
  function isAt(text, wanted, at) {
    for (let i = HEAD; i < wanted.length; i += PIECE) {
      const end = MathMin(i + PIECE, wanted.length);
      if (StringPrototypeSlice(text, at + i, at + end) !== StringPrototypeSlice(wanted, i, end)) return false;
    }
    return true;
  }

  function find(text, wanted, from) {
    const head = headOf(wanted);
    const stride = MathTrunc(MAX_COMPARED / MathMax(head.length, 1));
    const last = text.length - wanted.length;
    for (let at = from; at <= last;) {
      const end = MathMin(at + stride, last + 1);
      const found = StringPrototypeIndexOf(StringPrototypeSlice(text, at, end + head.length - 1), head);
      if (found < 0) {
        at = end;
        continue;
      }
      if (isAt(text, wanted, at + found)) return at + found;
      at += found + 1;
    }
    return -1;
  }
  function findLast(text, wanted, from) {
    const head = headOf(wanted);
    const stride = MathTrunc(MAX_COMPARED / MathMax(head.length, 1));
    for (let at = MathMin(from, text.length - wanted.length); at >= 0;) {
      const start = MathMax(at - stride + 1, 0);
      const found = StringPrototypeLastIndexOf(StringPrototypeSlice(text, start, at + head.length), head);
      if (found < 0) {
        at = start - 1;
        continue;
      }
      if (isAt(text, wanted, start + found)) return start + found;
      at = start + found - 1;
    }
    return -1;
  }

  // ---- Searches with values that are not strings, and slow searches

  const toText = (value) => (typeof value === "string" ? value : `${value}`);
  function textOf(self, name) {
    if (self === undefined || self === null) {
      throw new TypeError(`String.prototype.${name} called on null or undefined`);
    }
    return toText(self);
  }
  function isExpression(value) {
    if (typeof value !== "object" && typeof value !== "function" || value === null) return false;
    const matches = value[SymbolMatch];
    if (matches !== undefined) return !!matches;
    try {
      return typeof RegExpPrototypeGetSource(value) === "string";
    } catch {
      return false;
    }
  }
  const startOf = (argument, length) => MathMin(MathMax(MathTrunc(+argument) || 0, 0), length);

  function findSlowly(self, wanted, from, name) {
    const text = textOf(self, name);
    if (name === "includes" && isExpression(wanted)) {
      throw new TypeError("First argument to String.prototype.includes must not be a regular expression");
    }
    const what = toText(wanted);
    const start = startOf(from, text.length);
    return isQuick(text, what) ? StringPrototypeIndexOf(text, what, start) : find(text, what, start);
  }
  function findLastSlowly(self, wanted, from) {
    const text = textOf(self, "lastIndexOf");
    const what = toText(wanted);
    const last = +from;
    const start = NumberIsNaN(last) ? text.length : startOf(last, text.length);
    return isQuick(text, what) ? StringPrototypeLastIndexOf(text, what, start) : findLast(text, what, start);
  }

  // These are among the most frequently called functions. Because they use no `arguments` object
  // and make no other call first, they are as fast as the native functions when optimized, and tens
  // of nanoseconds slower otherwise.
  replace(StringPrototype, {
    includes(searchString, position = undefined) {
      if (typeof this === "string" && typeof searchString === "string" &&
        (this.length - searchString.length) * searchString.length <= MAX_COMPARED) {
        return StringPrototypeIncludes(this, searchString, position);
      }
      return findSlowly(this, searchString, position, "includes") >= 0;
    },
    indexOf(searchString, position = undefined) {
      if (typeof this === "string" && typeof searchString === "string" &&
        (this.length - searchString.length) * searchString.length <= MAX_COMPARED) {
        return StringPrototypeIndexOf(this, searchString, position);
      }
      return findSlowly(this, searchString, position, "indexOf");
    },
    lastIndexOf(searchString, position = undefined) {
      if (typeof this === "string" && typeof searchString === "string" &&
        (this.length - searchString.length) * searchString.length <= MAX_COMPARED) {
        return StringPrototypeLastIndexOf(this, searchString, position);
      }
      return findLastSlowly(this, searchString, position);
    },
  });

  // ---- Operations at each match, for slow searches

  // Replaces the first or every occurrence of `wanted`. A function `by` is called for each match.
  function replaceFound(text, wanted, by, isAll) {
    const template = typeof by === "function" ? "" : expand(toText(by), wanted);
    const make = typeof by === "function" ? (at) => `${by(wanted, at, text)}` : () => template;
    let all = "";
    let from = 0;
    for (let at = find(text, wanted, 0); at >= 0; at = isAll ? find(text, wanted, from) : -1) {
      all += StringPrototypeSlice(text, from, at) + make(at);
      from = at + wanted.length;
    }
    return all + StringPrototypeSlice(text, from);
  }
  // Expands a template, which may refer to the match but not to the text around it.
  function expand(template, wanted) {
    if (StringPrototypeIndexOf(template, "$") < 0) return template;
    const refersAround = StringPrototypeIndexOf(template, "$`") >= 0 || StringPrototypeIndexOf(template, "$'") >= 0;
    if (refersAround || template.length * wanted.length > MAX_COMPARED) refuse("A template for a match", wanted.length);
    return ReflectApply(replaceOnce, wanted, [wanted, template]);
  }
  function splitFound(text, wanted, limit) {
    const most = limit === undefined ? 2 ** 32 - 1 : limit >>> 0;
    const parts = [];
    let from = 0;
    for (let at = find(text, wanted, 0); at >= 0 && parts.length < most; at = find(text, wanted, from)) {
      put(parts, StringPrototypeSlice(text, from, at));
      from = at + wanted.length;
    }
    if (parts.length < most) put(parts, StringPrototypeSlice(text, from));
    return parts;
  }
  function put(list, value) {
    const descriptor = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
    ObjectDefineProperty(list, list.length, descriptor);
  }

  internal.bounds.search = { __proto__: null, isQuick, replaceFound, splitFound };
})
