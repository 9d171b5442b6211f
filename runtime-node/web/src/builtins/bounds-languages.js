// Functions that depend on a locale or on Unicode rules (see bounds.js). They call a library that
// never checks for termination. To order combining marks, the library goes back over all preceding
// marks for each mark, and it compares each part of a locale's name with every other part.
//: after bounds-strings.js
(function (internal) {
  "use strict";

  const {
    BigInt, Date, Number, ObjectDefineProperty, Proxy, RangeError, ReflectApply, ReflectConstruct, ReflectGet,
    ReflectGetOwnPropertyDescriptor, ReflectHas, RegExpPrototypeExec, StringPrototype, WeakMap, WeakMapPrototypeGet,
    WeakMapPrototypeSet, uncurryThis,
  } = internal.primordials;
  const { refuse, replace } = internal.bounds;
  const { TOO_LONG, read, toText } = internal.bounds.texts;
  const { Intl, Temporal } = globalThis;

  // ---- Names of locales

  // The names of real locales have at most a few dozen characters, and real lists at most a few
  // dozen names.
  const MAX_NAME_LENGTH = 2 ** 8;
  const MAX_NAMES = 2 ** 8;

  const toStringOf = uncurryThis(Intl.Locale.prototype.toString);
  function isLocale(value) {
    try {
      return typeof toStringOf(value) === "string";
    } catch {
      return false;
    }
  }
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  // Converts an object to a locale's name, unless it is an Intl.Locale. Refuses a name that is too
  // long; native code refuses values that are neither names nor objects.
  function named(value) {
    const name = isObject(value) && !isLocale(value) ? `${value}` : value;
    return typeof name === "string" && name.length > MAX_NAME_LENGTH ? refuse("A locale name", name.length) : name;
  }
  // Converts an argument that may be a name or a list of names.
  function locales(given) {
    if (!isObject(given)) return given === undefined ? given : named(given);
    if (isLocale(given)) return given;
    const length = +given.length;
    if (length > MAX_NAMES) refuse("A list of locales", length);
    const list = { __proto__: null, length };
    for (let i = 0; i < length; i++) {
      if (ReflectHas(given, i)) list[i] = named(given[i]);
    }
    return list;
  }
  // Converts the arguments. The argument at index `at` names locales.
  function withLocales(args, at) {
    if (args[at] === undefined) return args;
    return at === 0 ? [locales(args[0]), args[1]] : [args[0], locales(args[1]), args[2]];
  }

  // Options that are strings are limited like names.
  const options = { __proto__: null, get: (target, key) => {
    const value = ReflectGet(target, key);
    return typeof value === "string" ? named(value) : value;
  } };

  // This constructor is not standard, and would need a wrapper because it takes locales as well.
  delete Intl.v8BreakIterator;

  const make = (native, target, self, args) =>
    target === undefined ? ReflectApply(native, self, withLocales(args, 0))
      : ReflectConstruct(native, withLocales(args, 0), target);
  const {
    Collator, DateTimeFormat, DisplayNames, DurationFormat, ListFormat, Locale, NumberFormat, PluralRules,
    RelativeTimeFormat, Segmenter,
  } = Intl;
  const made = {
    Collator: function () { return make(Collator, new.target, this, arguments); },
    DateTimeFormat: function () { return make(DateTimeFormat, new.target, this, arguments); },
    DisplayNames: function (locales, options) { return make(DisplayNames, new.target, this, arguments); },
    DurationFormat: function () { return make(DurationFormat, new.target, this, arguments); },
    ListFormat: function () { return make(ListFormat, new.target, this, arguments); },
    Locale: function (tag) {
      const given = arguments[1];
      if (new.target === undefined) return ReflectApply(Locale, this, arguments);
      return ReflectConstruct(Locale, [named(tag), isObject(given) ? new Proxy(given, options) : given], new.target);
    },
    NumberFormat: function () { return make(NumberFormat, new.target, this, arguments); },
    PluralRules: function () { return make(PluralRules, new.target, this, arguments); },
    RelativeTimeFormat: function () { return make(RelativeTimeFormat, new.target, this, arguments); },
    Segmenter: function () { return make(Segmenter, new.target, this, arguments); },
  };
  // Moves the prototype and `supportedLocalesOf` from the native constructor to its replacement.
  function inherit(constructor, native) {
    const { prototype, supportedLocalesOf } = native;
    ObjectDefineProperty(constructor, "prototype", { __proto__: null, value: prototype, writable: false });
    ObjectDefineProperty(prototype, "constructor", { __proto__: null, value: constructor });
    if (supportedLocalesOf === undefined) return;
    const descriptor = ReflectGetOwnPropertyDescriptor(native, "supportedLocalesOf");
    ObjectDefineProperty(constructor, "supportedLocalesOf", descriptor);
    replace(constructor, {
      supportedLocalesOf(given) { return ReflectApply(supportedLocalesOf, native, withLocales(arguments, 0)); },
    });
  }
  for (const name of Object.keys(made)) {
    if (Intl[name] === undefined) delete made[name];
    else inherit(made[name], Intl[name]);
  }
  replace(Intl, made);
  const { getCanonicalLocales } = Intl;
  replace(Intl, {
    getCanonicalLocales(given) { return ReflectApply(getCanonicalLocales, Intl, withLocales(arguments, 0)); },
  });

  const { of: nameOf } = DisplayNames.prototype;
  replace(DisplayNames.prototype, {
    of(code) { return ReflectApply(nameOf, this, [named(code)]); },
  });

  // ---- Localized values

  function localize(prototype, names) {
    for (const name of names) {
      const native = prototype[name];
      if (native === undefined) continue;
      const { [name]: localized } = { [name]() { return ReflectApply(native, this, withLocales(arguments, 0)); } };
      replace(prototype, { [name]: localized });
    }
  }
  for (const { prototype } of [BigInt, Number]) localize(prototype, ["toLocaleString"]);
  localize(Date.prototype, ["toLocaleDateString", "toLocaleString", "toLocaleTimeString"]);
  for (const name of Temporal === undefined ? [] : Object.getOwnPropertyNames(Temporal)) {
    const { prototype } = Temporal[name];
    if (prototype !== undefined) localize(prototype, ["toLocaleString"]);
  }

  // ---- Strings

  // Strings of at most this length are compared or normalized natively without a check.
  const BRIEF = 2 ** 10;
  // Strings of this length are compared in tens of milliseconds.
  const MAX_COMPARED = 2 ** 23;
  // A string longer than BRIEF is refused if it has this many combining marks in a row. Unicode
  // Standard Annex #15 (Stream-Safe Text Format) allows 30.
  const MARKS = 128;
  // Characters that may be combining marks; no character below U+0300 is one.
  const FOREIGN = /[\u0300-\uffff]/;
  const RUN_OF_MARKS = new RegExp(`\\p{M}{${MARKS}}`, "u");

  function checkMarks(text) {
    if (RegExpPrototypeExec(FOREIGN, text) === null || RegExpPrototypeExec(RUN_OF_MARKS, text) === null) return text;
    throw new RangeError(`A string of this length must not have a run of ${MARKS} combining marks`);
  }
  const isBrief = (text) => typeof text === "string" && text.length <= BRIEF;
  const ordered = (value) => (isBrief(value) ? value : checkMarks(toText(value, MAX_COMPARED)));

  const { localeCompare, normalize, toLocaleLowerCase, toLocaleUpperCase } = StringPrototype;
  replace(StringPrototype, {
    localeCompare(other) {
      if (isBrief(this) && isBrief(other) && arguments.length === 1) return ReflectApply(localeCompare, this, arguments);
      const text = read(this, MAX_COMPARED);
      if (typeof text === "string") ordered(text);
      return ReflectApply(localeCompare, text, withLocales([ordered(other), arguments[1], arguments[2]], 1));
    },
    normalize() {
      if (isBrief(this)) return ReflectApply(normalize, this, arguments);
      const text = read(this, TOO_LONG);
      return ReflectApply(normalize, typeof text === "string" ? ordered(text) : text, arguments);
    },
    toLocaleLowerCase() { return ReflectApply(toLocaleLowerCase, read(this, TOO_LONG), withLocales(arguments, 0)); },
    toLocaleUpperCase() { return ReflectApply(toLocaleUpperCase, read(this, TOO_LONG), withLocales(arguments, 0)); },
  });

  // Maps V8's comparison function of each collator to the function that replaces it.
  const comparing = new WeakMap();
  const bounded = (compare) => (x, y) =>
    isBrief(x) && isBrief(y) ? compare(x, y) : compare(ordered(x), ordered(y));
  const descriptor = ReflectGetOwnPropertyDescriptor(Collator.prototype, "compare");
  const compareOf = uncurryThis(descriptor.get);
  const { get } = ReflectGetOwnPropertyDescriptor({
    get compare() {
      const native = compareOf(this);
      const known = WeakMapPrototypeGet(comparing, native);
      if (known !== undefined) return known;
      const compare = bounded(native);
      WeakMapPrototypeSet(comparing, native, compare);
      return compare;
    },
  }, "compare");
  ObjectDefineProperty(Collator.prototype, "compare", { ...descriptor, get });
})
