// Templates: the texts with `$&`, `` $` ``, `$'`, `$1` and `$<name>` that replace matches (see bounds.js). V8 lists the parts of
// all replacements before it puts them together, and ends the process when the list becomes too long for it. So a template
// that may come to many parts becomes a function that does what the template says: it is called for each match, and it loops.
(function (internal) {
  "use strict";

  const {
    MathMin, RegExpPrototypeGetSource, StringPrototypeCharCodeAt, StringPrototypeIndexOf, StringPrototypeSlice,
  } = internal.primordials;
  const { bounds } = internal;

  // So many parts are listed natively in some hundredths of a second.
  const MANY = 2 ** 21;
  // A text and a template of which no two lengths come to more than this need no closer look.
  const FEW = 2 ** 20;
  // A template of this length is looked through at once.
  const TOO_LONG = 2 ** 24;
  // Whatever groups an expression has, a text of this length has few captures.
  const SHORT = 2 ** 8;

  const [DOLLAR, AMPERSAND, APOSTROPHE, ZERO, NINE, LESS, BACKTICK] = [36, 38, 39, 48, 57, 60, 96];
  const isDigit = (code) => code >= ZERO && code <= NINE;

  // How often `mark` is in `text`, each with a character behind it. May be more than are looked for, and is never less.
  function count(text, mark) {
    let marks = 0;
    for (let at = StringPrototypeIndexOf(text, mark); at !== -1; at = StringPrototypeIndexOf(text, mark, at + 2)) marks++;
    return marks;
  }

  // Whether native code may replace by it in a text of that length.
  const isLight = (by, length) =>
    typeof by === "string" ? by.length * (length + 1) <= FEW : typeof by === "function";

  // What replaces as `by` does, and may be handed to native code.
  function lightened(by, length) {
    if (isLight(by, length)) return by;
    const template = typeof by === "string" ? by : `${by}`;
    if (isLight(template, length)) return template;
    if (template.length > TOO_LONG) bounds.refuse("A string", template.length);
    const dollars = count(template, "$");
    const parts = 2 * dollars + 1;
    return dollars === 0 || parts * (length + 1) <= MANY ? template : (...args) => filled(template, args);
  }

  // The template for one match, of which `args` are what a function that replaces gets.
  function filled(template, args) {
    // The position comes last but one, or before that where groups have names.
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

  // Whether all groups of an expression capture at most so many parts of a text of that length. Of an object that is none,
  // the Worker makes the matches.
  function capturesLittle(expression, length, most = MANY) {
    if (length <= SHORT) return true;
    let source;
    try {
      source = RegExpPrototypeGetSource(expression);
    } catch {
      return true;
    }
    return source.length * length <= most || (count(source, "(") + 3) * length <= most;
  }

  bounds.capturesLittle = capturesLittle;
  bounds.isLight = isLight;
  bounds.lightened = lightened;
})
