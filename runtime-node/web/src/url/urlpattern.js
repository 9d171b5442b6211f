// URLPattern (URL Pattern §1). Native code parses a pattern's text; V8 compiles and matches its
// regular expressions, so that an endless match is terminated like any other loop.
//: late, after describe.js
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, ObjectDefineProperty, RegExp, RegExpPrototypeExec, TypeError } = internal.primordials;
  const { USVString, dictionary, expose, isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("urlPatterns", ["URLPattern"], () => {
    // The components in the order of `pattern.rs`, which expects an init's base URL after them.
    const COMPONENTS = ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash"];
    // `ignoreCase` applies to this component and to those after it.
    const PATHNAME = 5;
    // The members in the order in which Web IDL reads them.
    const MEMBERS = ["baseURL", "hash", "hostname", "password", "pathname", "port", "protocol", "search", "username"];

    // The maximum length of an input, in UTF-16 code units.
    const MAX_LENGTH = 2 ** 21;

    // Converts an argument to {shown, parts}. Both are the string, if it is one. Otherwise, `shown`
    // is a copy of the init for the Worker, and `parts` a list of its members for native code.
    function input(value, what) {
      if (!isObject(value) && value !== undefined && value !== null) {
        const text = USVString(value);
        if (text.length > MAX_LENGTH) throw new TypeError(`${what}: the input is too long`);
        return { __proto__: null, shown: text, parts: text };
      }
      const given = dictionary(value, what);
      const shown = {};
      const read = { __proto__: null };
      for (let i = 0; i < MEMBERS.length; i++) {
        const member = given[MEMBERS[i]];
        if (member === undefined) continue;
        read[MEMBERS[i]] = USVString(member);
        if (read[MEMBERS[i]].length > MAX_LENGTH) throw new TypeError(`${what}: the input is too long`);
        define(shown, MEMBERS[i], read[MEMBERS[i]]);
      }
      const parts = [];
      for (let i = 0; i < COMPONENTS.length; i++) ArrayPrototypePush(parts, read[COMPONENTS[i]]);
      ArrayPrototypePush(parts, read.baseURL);
      return { __proto__: null, shown, parts };
    }

    const define = (object, name, value) =>
      ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

    let isURLPattern;

    class URLPattern {
      // {pattern, expression, names} of each component.
      #components = [];
      #hasRegExpGroups;

      static {
        isURLPattern = (value) => isObject(value) && #components in value;
      }

      constructor(pattern = {}, baseURL = undefined, options = undefined) {
        const isBase = baseURL !== undefined && baseURL !== null && !isObject(baseURL);
        const { parts } = input(pattern, "URLPattern");
        const base = isBase || arguments.length > 2 ? USVString(baseURL) : undefined;
        const { ignoreCase } = dictionary(isBase || arguments.length > 2 ? options : baseURL, "URLPattern");
        const ignores = !!ignoreCase;
        const found = ops.urlPattern(parts, base, ignores);
        this.#hasRegExpGroups = found.hasRegExpGroups;
        for (let i = 0; i < COMPONENTS.length; i++) {
          const component = found.components[i];
          let expression;
          try {
            expression = new RegExp(component.expression, ignores && i >= PATHNAME ? "vi" : "v");
          } catch (error) {
            throw new TypeError(`URLPattern: the ${COMPONENTS[i]} contains an invalid regular expression`, { __proto__: null, cause: error });
          }
          ArrayPrototypePush(this.#components, { __proto__: null, pattern: component.text, expression, names: component.groupNames });
        }
      }

      // Returns {input, match, names} for each component, or null if any component does not match.
      #match(value, baseURL, what) {
        const base = baseURL === undefined ? undefined : USVString(baseURL);
        const components = this.#components;
        if (base !== undefined && typeof value !== "string") {
          throw new TypeError(`${what}: a base URL cannot be given together with an object; set the member baseURL of the object`);
        }
        const parts = ops.urlPatternInput(value, base);
        if (parts === null) return null;
        const matches = [];
        for (let i = 0; i < COMPONENTS.length; i++) {
          const match = RegExpPrototypeExec(components[i].expression, parts[i]);
          if (match === null) return null;
          ArrayPrototypePush(matches, { __proto__: null, input: parts[i], match, names: components[i].names });
        }
        return matches;
      }

      test(value = {}, baseURL = undefined) {
        this.#components; // a brand check
        const { parts } = input(value, "URLPattern.test");
        return this.#match(parts, baseURL, "URLPattern.test") !== null;
      }

      exec(value = {}, baseURL = undefined) {
        this.#components; // a brand check
        const { parts, shown } = input(value, "URLPattern.exec");
        const matches = this.#match(parts, baseURL, "URLPattern.exec");
        if (matches === null) return null;
        const inputs = [shown];
        if (baseURL !== undefined) ArrayPrototypePush(inputs, USVString(baseURL));
        const result = { inputs };
        for (let i = 0; i < COMPONENTS.length; i++) {
          const { match, names } = matches[i];
          const groups = {};
          for (let j = 0; j < names.length; j++) define(groups, names[j], match[j + 1]);
          define(result, COMPONENTS[i], { input: matches[i].input, groups });
        }
        return result;
      }

      get protocol() {
        return this.#components[0].pattern;
      }
      get username() {
        return this.#components[1].pattern;
      }
      get password() {
        return this.#components[2].pattern;
      }
      get hostname() {
        return this.#components[3].pattern;
      }
      get port() {
        return this.#components[4].pattern;
      }
      get pathname() {
        return this.#components[5].pattern;
      }
      get search() {
        return this.#components[6].pattern;
      }
      get hash() {
        return this.#components[7].pattern;
      }
      get hasRegExpGroups() {
        return this.#hasRegExpGroups;
      }
    }
    expose(URLPattern);
    internal.describe("URLPattern", isURLPattern, URLPattern, COMPONENTS);
    return { URLPattern };
  });
})
