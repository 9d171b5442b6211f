// Replacement templates with `$&`, `` $` ``, `$'`, `$1` and `$<name>` (see bounds.js). V8 lists the
// parts of all replacements before it joins them, and crashes the process if the list becomes too
// long. A template that may produce many parts is converted to an equivalent function in
// JavaScript, which V8 calls for each match.
//: after bounds.js
(function (internal) {
  "use strict";

  const {
    MathMin, RegExpPrototypeGetSource, StringPrototypeCharCodeAt, StringPrototypeIndexOf, StringPrototypeSlice,
  } = internal.primordials;
  const { bounds } = internal;

  // Native code lists this many parts in tens of milliseconds.
  const MANY = 2 ** 21;
  // If the product of the lengths of string and template is at most this, the template needs no
  // further check.
  const FEW = 2 ** 20;
  // The maximum length of a template, which is scanned without interruption.
  const TOO_LONG = 2 ** 24;
  // In a string of this length, there are few captures, regardless of the groups of an expression.
  const SHORT = 2 ** 8;

  const [DOLLAR, AMPERSAND, APOSTROPHE, ZERO, NINE, LESS, BACKTICK] = [36, 38, 39, 48, 57, 60, 96];
  const isDigit = (code) => code >= ZERO && code <= NINE;

  // Counts the occurrences of `mark` in `text`. After each one, the search continues `width`
  // characters later.
  function count(text, mark, width) {
    let marks = 0;
    for (let at = StringPrototypeIndexOf(text, mark); at !== -1; at = StringPrototypeIndexOf(text, mark, at + width)) marks++;
    return marks;
  }

  // Returns whether native code may apply the replacement `by` to a string of this length.
  const isLight = (by, length) =>
    typeof by === "string" ? by.length * (length + 1) <= FEW : typeof by === "function";

  // Returns a replacement equivalent to `by` that may be passed to native code.
  function lightened(by, length) {
    if (isLight(by, length)) return by;
    const template = typeof by === "string" ? by : `${by}`;
    if (isLight(template, length)) return template;
    if (template.length > TOO_LONG) bounds.refuse("A string", template.length);
    const dollars = count(template, "$", 2);
    const parts = 2 * dollars + 1;
    return dollars === 0 || parts * (length + 1) <= MANY ? template : (...args) => filled(template, args);
  }

  // Expands the template for one match. `args` are the arguments of a replacer function.
  function filled(template, args) {
    // The position is the second to last argument, or the third to last if groups have names.
    const hasNames = typeof args[args.length - 2] !== "number";
    const captures = args.length - (hasNames ? 3 : 2);
    const match = args[0], position = args[captures], text = args[captures + 1];
    const groups = hasNames ? args[captures + 2] : undefined;
    let result = "";
    let done = 0;
    for (let at = StringPrototypeIndexOf(template, "$"); at !== -1;) {
      const code = StringPrototypeCharCodeAt(template, at + 1);
      let end = at + 2;
      let part;
      if (code === DOLLAR) part = "$";
      else if (code === AMPERSAND) part = match;
      else if (code === BACKTICK) part = StringPrototypeSlice(text, 0, position);
      else if (code === APOSTROPHE) part = StringPrototypeSlice(text, MathMin(position + match.length, text.length));
      else if (isDigit(code)) {
        let number = code - ZERO;
        const next = StringPrototypeCharCodeAt(template, end);
        if (isDigit(next) && number * 10 + next - ZERO < captures) {
          number = number * 10 + next - ZERO;
          end++;
        }
        if (number > 0 && number < captures) part = args[number] ?? "";
      } else if (code === LESS && groups !== undefined) {
        const close = StringPrototypeIndexOf(template, ">", end);
        if (close !== -1) {
          const group = groups[StringPrototypeSlice(template, end, close)];
          part = group === undefined ? "" : `${group}`;
          end = close + 1;
        }
      }
      if (part !== undefined) {
        result += StringPrototypeSlice(template, done, at) + part;
        done = end;
      }
      at = StringPrototypeIndexOf(template, "$", part === undefined ? at + 1 : end);
    }
    return result + StringPrototypeSlice(template, done);
  }

  // Returns whether all groups of an expression capture at most `most` parts of a string of that
  // length. Returns true for an object that is not a RegExp, because the Worker's code creates its
  // matches.
  function capturesLittle(expression, length, most = MANY) {
    if (length <= SHORT) return true;
    let source;
    try {
      source = RegExpPrototypeGetSource(expression);
    } catch {
      return true;
    }
    return source.length * length <= most || (count(source, "(", 1) + 3) * length <= most;
  }

  bounds.capturesLittle = capturesLittle;
  bounds.isLight = isLight;
  bounds.lightened = lightened;
})
