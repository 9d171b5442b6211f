// MIME types (MIME Sniffing §4), and their extraction from a header list (Fetch §2.2).
//
// A type is a record {essence, parameters}; the parameters are a flat list [name, value, …] in
// their order.
//: after headers.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeToLowerCase,
  } = internal.primordials;

  // Valid names, and valid values of parameters.
  const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
  const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
  const isWhitespace = (character) =>
    character === "\t" || character === "\n" || character === "\r" || character === " ";

  function trimmed(string) {
    let from = 0;
    let to = string.length;
    while (from < to && isWhitespace(string[from])) from++;
    while (to > from && isWhitespace(string[to - 1])) to--;
    return to - from === string.length ? string : StringPrototypeSlice(string, from, to);
  }

  // Returns the first position of `character` at or after `at`, or the length of the string.
  const until = (string, character, at) => {
    const found = StringPrototypeIndexOf(string, character, at);
    return found < 0 ? string.length : found;
  };

  // Returns the text between the quote at `at` and the next unescaped quote: {value, end}.
  function quoted(string, at) {
    let value = "";
    let i = at + 1;
    for (; i < string.length && string[i] !== '"'; i++) {
      if (string[i] === "\\" && i + 1 < string.length) i++;
      value += string[i];
    }
    return { __proto__: null, value, end: i + 1 };
  }

  function parameter(type, name) {
    for (let i = 0; i < type.parameters.length; i += 2) if (type.parameters[i] === name) return type.parameters[i + 1];
    return null;
  }

  // Parses a string as a type, or returns null.
  function parse(input) {
    const string = trimmed(input);
    const end = until(string, ";", 0);
    const slash = StringPrototypeIndexOf(string, "/");
    if (slash < 0 || slash > end) return null;
    const major = StringPrototypeSlice(string, 0, slash);
    const minor = trimmed(StringPrototypeSlice(string, slash + 1, end));
    if (RegExpPrototypeExec(TOKEN, major) === null || RegExpPrototypeExec(TOKEN, minor) === null) return null;
    const type = { __proto__: null, essence: StringPrototypeToLowerCase(`${major}/${minor}`), parameters: [] };
    const known = { __proto__: null };
    for (let at = end; at < string.length;) {
      at++;
      while (at < string.length && isWhitespace(string[at])) at++;
      const from = at;
      while (at < string.length && string[at] !== ";" && string[at] !== "=") at++;
      const name = StringPrototypeToLowerCase(StringPrototypeSlice(string, from, at));
      if (string[at] !== "=") continue;
      at++;
      let value;
      if (string[at] === '"') {
        const inner = quoted(string, at);
        value = inner.value;
        at = until(string, ";", inner.end);
      } else {
        const to = until(string, ";", at);
        value = trimmed(StringPrototypeSlice(string, at, to));
        at = to;
        if (value === "") continue;
      }
      if (RegExpPrototypeExec(TOKEN, name) === null || RegExpPrototypeExec(VALUE, value) === null) continue;
      if (known[name]) continue;
      known[name] = true;
      ArrayPrototypePush(type.parameters, name);
      ArrayPrototypePush(type.parameters, value);
    }
    return type;
  }

  function serialize(type) {
    let out = type.essence;
    const { parameters } = type;
    for (let i = 0; i < parameters.length; i += 2) {
      let value = parameters[i + 1];
      if (RegExpPrototypeExec(TOKEN, value) === null) {
        let escaped = "";
        for (let j = 0; j < value.length; j++) escaped += value[j] === '"' || value[j] === "\\" ? `\\${value[j]}` : value[j];
        value = `"${escaped}"`;
      }
      out += `;${parameters[i]}=${value}`;
    }
    return out;
  }

  // Splits a header's value at commas outside quotes.
  function split(value) {
    const parts = [];
    let from = 0;
    for (let i = 0; i <= value.length; i++) {
      if (value[i] === '"') {
        i = quoted(value, i).end - 1;
      } else if (i === value.length || value[i] === ",") {
        ArrayPrototypePush(parts, trimmed(StringPrototypeSlice(value, from, i)));
        from = i + 1;
      }
    }
    if (from <= value.length && parts.length === 0) ArrayPrototypePush(parts, trimmed(StringPrototypeSlice(value, from)));
    return parts;
  }

  // Returns the type that a header list declares for its body, or null.
  function extract(list) {
    const header = internal.headers.lookup(list, "content-type");
    if (header === null) return null;
    let type = null;
    let essence = null;
    let charset = null;
    const values = split(header);
    for (let i = 0; i < values.length; i++) {
      const next = parse(values[i]);
      if (next === null || next.essence === "*/*") continue;
      type = next;
      const own = parameter(type, "charset");
      if (type.essence !== essence) {
        charset = own;
        ({ essence } = type);
      } else if (own === null && charset !== null) {
        ArrayPrototypePush(type.parameters, "charset");
        ArrayPrototypePush(type.parameters, charset);
      }
    }
    return type;
  }

  internal.mime = { __proto__: null, extract, parameter, parse, serialize };
})
