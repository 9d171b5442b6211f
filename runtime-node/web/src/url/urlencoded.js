// application/x-www-form-urlencoded (URL §5): conversions between text and a flat list of names and
// values.
//: eager, after webidl.js
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeSlice } = internal.primordials;

  const ESCAPED = /[%+]/;
  const UNSAFE = /[^*\-._0-9A-Za-z]/;

  // A native call ends at the first `&` after this number of code units, because a call cannot be
  // terminated.
  const MIN_STEP = 2 ** 13;

  function parseEscaped(string) {
    if (string.length <= MIN_STEP) return internal.ops.formParse(string);
    const list = [];
    for (let from = 0; from < string.length;) {
      let to = StringPrototypeIndexOf(string, "&", from + MIN_STEP);
      if (to < 0) to = string.length;
      const some = internal.ops.formParse(StringPrototypeSlice(string, from, to));
      for (let i = 0; i < some.length; i++) ArrayPrototypePush(list, some[i]);
      from = to + 1;
    }
    return list;
  }

  function parseForm(string) {
    if (RegExpPrototypeExec(ESCAPED, string) !== null) return parseEscaped(string);
    const list = [];
    const end = string.length;
    // The index of the next "=", or the length of the string. No part of the text is searched
    // twice.
    let equals = -1;
    for (let from = 0; from < end;) {
      let to = StringPrototypeIndexOf(string, "&", from);
      if (to < 0) to = end;
      if (to > from) {
        if (equals < from) {
          equals = StringPrototypeIndexOf(string, "=", from);
          if (equals < 0) equals = end;
        }
        const hasValue = equals < to;
        ArrayPrototypePush(list, StringPrototypeSlice(string, from, hasValue ? equals : to));
        ArrayPrototypePush(list, hasValue ? StringPrototypeSlice(string, equals + 1, to) : "");
      }
      from = to + 1;
    }
    return list;
  }

  const escape = (part) => (RegExpPrototypeExec(UNSAFE, part) === null ? part : internal.ops.formEscape(part));

  function serializeForm(list) {
    let out = "";
    for (let i = 0; i < list.length; i += 2) {
      if (i > 0) out += "&";
      out += `${escape(list[i])}=${escape(list[i + 1])}`;
    }
    return out;
  }

  internal.parseForm = parseForm;
  internal.serializeForm = serializeForm;
})
