// Functions that process a whole string (see bounds.js). In fewer than thirty doublings, a Worker
// can reach the maximum length of a string. Some functions take a minute to process such a string,
// or crash the process.
//: after bounds-replace.js bounds-search.js
(function (internal) {
  "use strict";

  const {
    Proxy, ReflectApply, ReflectGet, ReflectSet, RegExp,
    RegExpPrototypeExec, RegExpPrototypeGetSource, StringPrototype, StringPrototypeCharCodeAt,
    StringPrototypeSlice, SymbolReplace, decodeURI, decodeURIComponent, encodeURI,
    encodeURIComponent, uncurryThis,
  } = internal.primordials;
  const { capturesLittle, isLight, lightened, refuse, replace: put } = internal.bounds;
  const { isQuick, replaceFound, splitFound } = internal.bounds.search;

  // Native code searches, cuts and joins a string of this length in tens of milliseconds.
  const LONG = 2 ** 18;
  // The maximum length for functions that natively create a new string character by character.
  const TOO_LONG = 2 ** 22;
  // The maximum length for searches in which each match is a call.
  const UNSEARCHABLE = 2 ** 24;

  // The maximum number of captures in one list.
  const MANY_CAPTURES = 2 ** 23;

  // ---- Functions that read a string from start to end

  // Returns a receiver as a string; refuses one that is longer than `length`. Returns undefined and
  // null unchanged, so that the native function refuses them.
  function read(value, length) {
    const text = typeof value === "string" || value === undefined || value === null ? value : `${value}`;
    return typeof text === "string" && text.length > length ? refuse("A string", text.length) : text;
  }
  // Converts an argument to a string; refuses a string that is longer than `length`.
  const toText = (value, length) => read(typeof value === "string" ? value : `${value}`, length);
  const { replace, replaceAll, split, toLowerCase, toUpperCase, toWellFormed } = StringPrototype;
  put(StringPrototype, {
    toLowerCase() { return ReflectApply(toLowerCase, read(this, TOO_LONG), arguments); },
    toUpperCase() { return ReflectApply(toUpperCase, read(this, TOO_LONG), arguments); },
    toWellFormed() { return ReflectApply(toWellFormed, read(this, TOO_LONG), arguments); },
  });

  internal.bounds.texts = { __proto__: null, TOO_LONG, read, toText };

  // ---- Uniform resource identifiers

  // Encodes piece by piece. The encoding of a character, or of a surrogate pair, does not depend on
  // the characters around it.
  function encoded(encode, text) {
    let all = "";
    for (let from = 0; from < text.length;) {
      let to = from + LONG;
      if ((StringPrototypeCharCodeAt(text, to - 1) & 0xfc00) === 0xd800) to++;
      all += encode(StringPrototypeSlice(text, from, to));
      from = to;
    }
    return all;
  }
  const { escape, unescape } = globalThis;
  put(globalThis, {
    decodeURI(encodedURI) { return decodeURI(toText(encodedURI, TOO_LONG)); },
    decodeURIComponent(encodedURIComponent) { return decodeURIComponent(toText(encodedURIComponent, TOO_LONG)); },
    encodeURI(uri) {
      const text = toText(uri, UNSEARCHABLE);
      return text.length <= LONG ? encodeURI(text) : encoded(encodeURI, text);
    },
    encodeURIComponent(uriComponent) {
      const text = toText(uriComponent, UNSEARCHABLE);
      return text.length <= LONG ? encodeURIComponent(text) : encoded(encodeURIComponent, text);
    },
    escape(string) { return escape(toText(string, TOO_LONG)); },
    unescape(string) { return unescape(toText(string, TOO_LONG)); },
  });

  // ---- Regular expressions

  // Wraps an expression so that each match is a call: for each match, the loop over the matches
  // calls an `exec` that is not V8's own.
  function stepped(expression) {
    const exec = (text) => RegExpPrototypeExec(expression, text);
    return new Proxy(expression, {
      __proto__: null,
      get: (target, key) => (key === "exec" ? exec : ReflectGet(target, key)),
      set: (target, key, value) => ReflectSet(target, key, value),
    });
  }
  const isExpression = (value) => {
    try {
      return typeof RegExpPrototypeGetSource(value) === "string";
    } catch {
      return false;
    }
  };
  // Returns the expression to apply to a string: a wrapped one if the string is long.
  function forText(value, expression) {
    const text = toText(value, UNSEARCHABLE);
    return text.length > LONG && isExpression(expression) ? stepped(expression) : expression;
  }

  const methodOf = (key) => uncurryThis(RegExp.prototype[key]);
  const match = methodOf(Symbol.match), matchAll = methodOf(Symbol.matchAll), replaceBy = methodOf(Symbol.replace);
  const search = methodOf(Symbol.search), splitBy = methodOf(Symbol.split);
  const isShort = (text) => typeof text === "string" && text.length <= LONG;
  put(RegExp.prototype, {
    [Symbol.match](string) { return match(isShort(string) ? this : forText(string, this), string); },
    [Symbol.matchAll](string) { return matchAll(isShort(string) ? this : forText(string, this), string); },
    [Symbol.replace](string, by) {
      if (isShort(string) && isLight(by, string.length) && capturesLittle(this, string.length)) return replaceBy(this, string, by);
      const text = toText(string, UNSEARCHABLE);
      const expression = capturesLittle(this, text.length) ? forText(text, this) : stepped(this);
      return replaceBy(expression, text, lightened(by, text.length));
    },
    [Symbol.search](string) { return search(isShort(string) ? this : forText(string, this), string); },
    [Symbol.split](string, limit) {
      const text = toText(string, UNSEARCHABLE);
      if (!capturesLittle(this, text.length, MANY_CAPTURES)) refuse("A string", text.length);
      return splitBy(forText(text, this), text, limit);
    },
  });

  // Converts a string pattern to an expression that finds it in a long string. Returns any other
  // pattern unchanged.
  function toExpression(pattern, flags) {
    return typeof pattern === "string" ? new RegExp(replaceBy(/[\\^$.*+?()[\]{}|]/g, pattern, "\\$&"), flags) : pattern;
  }
  // A pattern with its own `Symbol.replace`, such as a RegExp, checks `by` itself.
  function replaceSlowly(native, text, pattern, by) {
    if (typeof text !== "string") return ReflectApply(native, text, [pattern, by]);
    if (typeof pattern === "object" && pattern !== null || typeof pattern === "function") {
      const method = pattern[SymbolReplace];
      if (method !== undefined && method !== null) return ReflectApply(native, text, [pattern, by]);
      pattern = `${pattern}`;
    }
    return ReflectApply(native, text, [pattern, lightened(by, text.length)]);
  }
  // Returns whether a search for a string takes long.
  const isSlow = (text, wanted) =>
    typeof text === "string" && typeof wanted === "string" && text.length <= UNSEARCHABLE && !isQuick(text, wanted);
  put(StringPrototype, {
    replace(pattern, by) {
      if (isSlow(this, pattern)) return replaceFound(this, pattern, by, false);
      if (isShort(this) && isLight(by, this.length)) return ReflectApply(replace, this, arguments);
      return replaceSlowly(replace, read(this, UNSEARCHABLE), pattern, by);
    },
    replaceAll(pattern, by) {
      if (isSlow(this, pattern)) return replaceFound(this, pattern, by, true);
      if (isShort(this) && isLight(by, this.length)) return ReflectApply(replaceAll, this, arguments);
      const text = read(this, UNSEARCHABLE);
      return replaceSlowly(replaceAll, text, isShort(text) ? pattern : toExpression(pattern, "g"), by);
    },
    split(separator, limit) {
      if (isSlow(this, separator)) return splitFound(this, separator, limit);
      if (isShort(this)) return ReflectApply(split, this, arguments);
      return ReflectApply(split, read(this, UNSEARCHABLE), [toExpression(separator, ""), limit]);
    },
  });
})
