// Headers (Fetch §5.1). A header list is a flat array [name, value, name, value, …] with names in
// lower case, as native code passes it; a Headers object is a view of a header list.
//
// Forbidden header names are a concern of browsers. Here a Headers object is either mutable or
// immutable.
//: eager, after describe.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeSort, ArrayPrototypeSplice, RegExpPrototypeExec, StringPrototypeSlice,
    StringPrototypeToLowerCase, TypeError,
  } = internal.primordials;
  const { ByteString, DOMString, expose, isObject, iterable, needs, pairs } = internal.webidl;

  const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
  // Matches values that are padded or have a forbidden character.
  const UNUSUAL = /^[\t ]|[\t ]$|[\0\n\r]|[^\x00-\xff]/;
  const NOT_VALUE = /[\0\n\r]/;

  // The most common names, in their usual spelling and in lower case, which need no validation.
  const COMMON = { __proto__: null };
  for (const name of [
    "Accept", "Accept-Encoding", "Accept-Language", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin", "Access-Control-Max-Age", "Authorization", "Cache-Control", "Content-Encoding",
    "Content-Length", "Content-Security-Policy", "Content-Type", "Cookie", "Date", "ETag", "Expires", "Forwarded",
    "Host", "If-Modified-Since", "If-None-Match", "Last-Modified", "Link", "Location", "Origin", "Referer",
    "Retry-After", "Server", "Server-Timing", "Set-Cookie", "Strict-Transport-Security", "Traceparent", "Tracestate",
    "User-Agent", "Vary", "WWW-Authenticate", "X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Proto",
    "X-Frame-Options", "X-Request-Id",
  ]) COMMON[name] = COMMON[name.toLowerCase()] = name.toLowerCase();

  function normalName(name) {
    const string = DOMString(name);
    const common = COMMON[string];
    if (common !== undefined) return common;
    if (string === "" || RegExpPrototypeExec(NOT_TOKEN, string) !== null) {
      throw new TypeError(`Headers: '${string}' is not a valid name`);
    }
    return StringPrototypeToLowerCase(string);
  }

  const isSpace = (c) => c === " " || c === "\t" || c === "\n" || c === "\r";

  function normalValue(value) {
    let string = DOMString(value);
    if (RegExpPrototypeExec(UNUSUAL, string) === null) return string;
    let from = 0, to = string.length;
    while (from < to && isSpace(string[from])) from++;
    while (to > from && isSpace(string[to - 1])) to--;
    string = ByteString(StringPrototypeSlice(string, from, to), "Headers");
    if (RegExpPrototypeExec(NOT_VALUE, string) !== null) {
      throw new TypeError("Headers: a value must not contain NUL, CR or LF");
    }
    return string;
  }

  // Returns the combined values of `name`, or null if there is none.
  function lookup(list, name) {
    let value = null;
    for (let i = 0; i < list.length; i += 2) {
      if (list[i] === name) value = value === null ? list[i + 1] : `${value}, ${list[i + 1]}`;
    }
    return value;
  }

  function remove(list, name) {
    for (let i = list.length - 2; i >= 0; i -= 2) if (list[i] === name) ArrayPrototypeSplice(list, i, 2);
  }

  function set(list, name, value) {
    for (let i = 0; i < list.length; i += 2) {
      if (list[i] !== name) continue;
      list[i + 1] = value;
      for (let j = list.length - 2; j > i; j -= 2) if (list[j] === name) ArrayPrototypeSplice(list, j, 2);
      return;
    }
    ArrayPrototypePush(list, name);
    ArrayPrototypePush(list, value);
  }

  // Appends the headers of a HeadersInit.
  function fill(list, init) {
    if (!isObject(init)) throw new TypeError("Headers: the init is neither Headers, nor pairs, nor an object");
    if (isHeaders(init)) {
      const source = listOf(init);
      for (let i = 0; i < source.length; i++) list[list.length] = source[i];
      return;
    }
    const flat = pairs(init, DOMString, "Headers");
    for (let i = 0; i < flat.length; i += 2) {
      const name = normalName(flat[i]);
      const value = normalValue(flat[i + 1]);
      ArrayPrototypePush(list, name);
      ArrayPrototypePush(list, value);
    }
  }

  // Returns the list for iteration: sorted by name and combined, except for Set-Cookie.
  function sortAndCombine(list) {
    const names = [];
    const combined = { __proto__: null };
    for (let i = 0; i < list.length; i += 2) {
      const name = list[i], before = combined[name];
      if (before === undefined) {
        names[names.length] = name;
        combined[name] = list[i + 1];
      } else if (name !== "set-cookie") {
        combined[name] = `${before}, ${list[i + 1]}`;
      }
    }
    ArrayPrototypeSort(names);
    const out = [];
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (name === "set-cookie") {
        for (let j = 0; j < list.length; j += 2) {
          if (list[j] === name) out[out.length] = name, out[out.length] = list[j + 1];
        }
      } else {
        out[out.length] = name;
        out[out.length] = combined[name];
      }
    }
    return out;
  }

  const WRAP = { __proto__: null };
  let isHeaders;
  let listOf;
  let sorted;

  class Headers {
    #list;
    #immutable = false;
    // The list for iteration, which is valid until the next change; otherwise null.
    #sorted = null;

    static {
      isHeaders = (value) => isObject(value) && #list in value;
      listOf = (headers) => headers.#list;
      sorted = (headers) => (headers.#sorted ??= sortAndCombine(headers.#list));
    }

    constructor(init = undefined, list = undefined, immutable = false) {
      if (init === WRAP) {
        this.#list = list;
        this.#immutable = immutable;
        return;
      }
      this.#list = [];
      if (init !== undefined) fill(this.#list, init);
    }

    // Prepares a change: throws if the headers are immutable, and drops the sorted list.
    #beginChange() {
      if (this.#immutable) {
        throw new TypeError("Headers: these are immutable; change a copy: new Headers(headers)");
      }
      this.#sorted = null;
    }

    append(name, value) {
      const list = this.#list;
      needs(arguments.length, 2, "Headers.append");
      const key = normalName(name);
      const text = normalValue(value);
      this.#beginChange();
      ArrayPrototypePush(list, key);
      ArrayPrototypePush(list, text);
    }

    delete(name) {
      const list = this.#list;
      needs(arguments.length, 1, "Headers.delete");
      const key = normalName(name);
      this.#beginChange();
      remove(list, key);
    }

    get(name) {
      const list = this.#list;
      needs(arguments.length, 1, "Headers.get");
      const key = DOMString(name);
      // A name that is in the list needs no validation.
      const value = lookup(list, key);
      return value === null ? lookup(list, normalName(key)) : value;
    }

    getSetCookie() {
      const list = this.#list;
      const cookies = [];
      for (let i = 0; i < list.length; i += 2) {
        if (list[i] === "set-cookie") cookies[cookies.length] = list[i + 1];
      }
      return cookies;
    }

    has(name) {
      const list = this.#list;
      needs(arguments.length, 1, "Headers.has");
      return lookup(list, normalName(name)) !== null;
    }

    set(name, value) {
      const list = this.#list;
      needs(arguments.length, 2, "Headers.set");
      const key = normalName(name);
      const text = normalValue(value);
      this.#beginChange();
      set(list, key, text);
    }
  }
  iterable(Headers, (headers) => sorted(headers));
  expose(Headers);
  internal.globals({ Headers });

  internal.headers = {
    __proto__: null,
    // Creates a Headers object that reads and, unless immutable, changes `list`.
    wrap: (list, immutable) => new Headers(WRAP, list, immutable),
    isHeaders, listOf, sorted, lookup, fill,
  };
  internal.describeBy("Headers", internal.headers.isHeaders, internal.headers.sorted);
})
