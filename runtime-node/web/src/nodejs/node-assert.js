// node:assert: AssertionError, the assertions, and `assert.strict`.
//: module
(function (internal) {
  "use strict";

  const {
    Error, ErrorCaptureStackTrace, FunctionPrototypeToString, ObjectGetPrototypeOf, ObjectIs, ReflectApply, ReflectOwnKeys,
    RegExpPrototypeExec, StringPrototypeStartsWith, TypeError,
  } = internal.primordials;
  const { isObject } = internal.webidl;

  internal.define("assert", () => {
    const { coded, defineHidden, invalid, needFunction, needObject } = internal.node;
    const { isDeepEqual, isDeepStrictEqual } = internal.use("equality");
    const isRegExp = (value) => internal.ops.isKind(value, "RegExp");
    const isError = (value) => internal.ops.isKind(value, "NativeError") || value instanceof Error;

    const MESSAGES = {
      __proto__: null,
      "==": "Expected values to be loosely equal:",
      "!=": "Expected \"actual\" to be loosely unequal to:",
      strictEqual: "Expected values to be strictly equal:",
      notStrictEqual: "Expected \"actual\" to be strictly unequal to:",
      deepEqual: "Expected values to be loosely deep-equal:",
      notDeepEqual: "Expected \"actual\" not to be loosely deep-equal to:",
      deepStrictEqual: "Expected values to be strictly deep-equal:",
      notDeepStrictEqual: "Expected \"actual\" not to be strictly deep-equal to:",
    };
    function defaultMessage(operator, actual, expected) {
      const text = MESSAGES[operator];
      if (text === undefined) return "Failed";
      const shown = internal.inspect(actual);
      if (StringPrototypeStartsWith(operator, "not") || operator === "!=") return `${text} ${shown}`;
      const other = internal.inspect(expected);
      return shown.length + other.length < 60 && !shown.includes("\n") && !other.includes("\n")
        ? `${text}\n\n${shown} !== ${other}\n` : `${text}\n\n+ actual\n${shown}\n\n- expected\n${other}\n`;
    }

    class AssertionError extends Error {
      constructor(options) {
        const { message, actual, expected, operator, stackStartFn } = needObject(options, "options");
        super(message === undefined ? defaultMessage(operator, actual, expected) : `${message}`);
        defineHidden(this, { name: "AssertionError" });
        this.generatedMessage = message === undefined;
        this.code = "ERR_ASSERTION";
        this.actual = actual;
        this.expected = expected;
        this.operator = operator;
        if (stackStartFn !== undefined) ErrorCaptureStackTrace(this, stackStartFn);
      }
      toString() {
        return `${this.name} [${this.code}]: ${this.message}`;
      }
    }

    function throwFailure(message, details) {
      if (isError(message)) throw message;
      throw new AssertionError({ message, ...details });
    }

    // Creates an assertion that compares two values with `holds`.
    const comparison = (operator, holds) => {
      const assertion = { [operator](actual, expected, message) {
        if (arguments.length < 2) {
          throw coded(TypeError, "ERR_MISSING_ARGS", 'The "actual" and "expected" arguments must be specified');
        }
        if (!holds(actual, expected)) throwFailure(message, { actual, expected, operator: OPERATORS[operator] ?? operator, stackStartFn: assertion });
      } }[operator];
      return assertion;
    };
    const OPERATORS = { __proto__: null, equal: "==", notEqual: "!=" };

    function assert(...args) {
      checkTruthy(assert, args);
    }
    function ok(...args) {
      checkTruthy(ok, args);
    }
    function checkTruthy(from, args) {
      if (args[0]) return;
      const message = args.length === 0 ? "No value argument passed to `assert.ok()`"
        : args[1] ?? "The expression evaluated to a falsy value";
      throwFailure(message, { actual: args[0], expected: true, operator: "==", stackStartFn: from });
    }

    function fail(message = "Failed") {
      throwFailure(message, { operator: "fail", stackStartFn: fail });
    }

    // Checks a thrown error against the expected class, regular expression, function or properties.
    // Throws if the error does not match.
    function checkMatches(error, expected, message, from) {
      if (isRegExp(expected)) {
        if (RegExpPrototypeExec(expected, `${error}`) !== null) return;
        throwFailure(message ?? `The input did not match the regular expression ${internal.inspect(expected)}. Input:\n\n${
          internal.inspect(`${error}`)}\n`, { actual: error, expected, operator: from.name, stackStartFn: from });
      }
      if (typeof expected === "function") {
        if (expected.prototype !== undefined && error instanceof expected) return;
        // An error class, not a validation function.
        if (expected === Error || ObjectGetPrototypeOf(expected) === Error || expected.prototype instanceof Error) {
          throwFailure(message ?? `The error is expected to be an instance of "${expected.name}". Received ${internal.inspect(error)}`,
            { actual: error, expected, operator: from.name, stackStartFn: from });
        }
        if (ReflectApply(expected, {}, [error]) === true) return;
        throwFailure(message ?? `The ${FunctionPrototypeToString(expected)} validation function is expected to return "true".`,
          { actual: error, expected, operator: from.name, stackStartFn: from });
      }
      const keys = ReflectOwnKeys(expected);
      const all = isError(expected) ? [...keys, "name", "message"] : keys;
      if (all.length === 0) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'error' may not be an empty object. Received {}");
      for (let i = 0; i < all.length; i++) {
        if (all[i] === "stack") continue;
        const wanted = expected[all[i]];
        const actual = isObject(error) ? error[all[i]] : undefined;
        if (typeof actual === "string" && isRegExp(wanted) && RegExpPrototypeExec(wanted, actual) !== null) continue;
        if (isDeepStrictEqual(actual, wanted)) continue;
        throwFailure(message ?? `Expected the error's ${internal.inspect(all[i])} to be ${internal.inspect(wanted)}, not ${
          internal.inspect(actual)}`, { actual: error, expected, operator: from.name, stackStartFn: from });
      }
    }

    const NOTHING = { __proto__: null };
    function checkThrown(from, thrown, expected, message) {
      if (typeof expected === "string") return checkThrown(from, thrown, undefined, expected);
      if (expected !== undefined && !isObject(expected)) {
        throw invalid("error", "of type function or an instance of Error, RegExp, or Object", expected);
      }
      if (thrown === NOTHING) {
        const what = from === rejects ? "rejection" : "exception";
        const kind = expected?.name ? ` (${expected.name})` : "";
        return throwFailure(isError(message) ? message : `Missing expected ${what}${kind}${message === undefined ? "." : `: ${message}`}`,
          { actual: undefined, expected, operator: from.name, stackStartFn: from });
      }
      return expected === undefined ? undefined : checkMatches(thrown, expected, message, from);
    }
    function thrownBy(fn) {
      needFunction(fn, "fn");
      try {
        fn();
      } catch (error) {
        return error;
      }
      return NOTHING;
    }
    async function rejectionOf(given) {
      let promise = given;
      if (typeof given === "function") {
        promise = given();
        if (typeof promise?.then !== "function") {
          throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", 'Expected instance of Promise to be returned from the "promiseFn" function');
        }
      } else if (typeof promise?.then !== "function") {
        throw invalid("promiseFn", "of type function or an instance of Promise", promise);
      }
      try {
        await promise;
      } catch (error) {
        return error;
      }
      return NOTHING;
    }

    function throws(fn, expected, message) {
      checkThrown(throws, thrownBy(fn), expected, message);
    }
    async function rejects(promise, expected, message) {
      checkThrown(rejects, await rejectionOf(promise), expected, message);
    }
    function checkNotThrown(from, thrown, expected, message) {
      if (thrown === NOTHING) return;
      const text = typeof expected === "string" ? expected : message;
      if (typeof expected === "function" && !(thrown instanceof expected)) throw thrown;
      if (isRegExp(expected) && RegExpPrototypeExec(expected, `${thrown}`) === null) throw thrown;
      throwFailure(`Got unwanted ${from === doesNotThrow ? "exception" : "rejection"}${text === undefined ? "." : `: ${text}`}\nActual message: "${
        thrown?.message}"`, { actual: thrown, expected, operator: from.name, stackStartFn: from });
    }
    function doesNotThrow(fn, expected, message) {
      checkNotThrown(doesNotThrow, thrownBy(fn), expected, message);
    }
    async function doesNotReject(promise, expected, message) {
      checkNotThrown(doesNotReject, await rejectionOf(promise), expected, message);
    }

    function ifError(value) {
      if (value === null || value === undefined) return;
      throwFailure(`ifError got unwanted exception: ${isObject(value) && typeof value.message === "string" ? value.message : internal.inspect(value)}`,
        { actual: value, expected: null, operator: "ifError", stackStartFn: ifError });
    }

    function match(string, expression, message) {
      if (!isRegExp(expression)) throw invalid("regexp", "an instance of RegExp", expression);
      if (typeof string === "string" && RegExpPrototypeExec(expression, string) !== null) return;
      throwFailure(message ?? `The input did not match the regular expression ${internal.inspect(expression)}. Input:\n\n${internal.inspect(string)}\n`,
        { actual: string, expected: expression, operator: "match", stackStartFn: match });
    }
    function doesNotMatch(string, expression, message) {
      if (!isRegExp(expression)) throw invalid("regexp", "an instance of RegExp", expression);
      if (typeof string !== "string" || RegExpPrototypeExec(expression, string) === null) return;
      throwFailure(message ?? `The input was expected to not match the regular expression ${internal.inspect(expression)}. Input:\n\n${internal.inspect(string)}\n`,
        { actual: string, expected: expression, operator: "doesNotMatch", stackStartFn: doesNotMatch });
    }

    const isLooselyEqual = (a, b) => a == b || (a !== a && b !== b);
    const members = {
      AssertionError,
      deepEqual: comparison("deepEqual", isDeepEqual),
      deepStrictEqual: comparison("deepStrictEqual", isDeepStrictEqual),
      doesNotMatch,
      doesNotReject,
      doesNotThrow,
      equal: comparison("equal", isLooselyEqual),
      fail,
      ifError,
      match,
      notDeepEqual: comparison("notDeepEqual", (a, b) => !isDeepEqual(a, b)),
      notDeepStrictEqual: comparison("notDeepStrictEqual", (a, b) => !isDeepStrictEqual(a, b)),
      notEqual: comparison("notEqual", (a, b) => !isLooselyEqual(a, b)),
      notStrictEqual: comparison("notStrictEqual", (a, b) => !ObjectIs(a, b)),
      ok,
      rejects,
      strictEqual: comparison("strictEqual", (a, b) => ObjectIs(a, b)),
      throws,
    };
    const copyTo = (target, given) => {
      const names = ReflectOwnKeys(given);
      for (let i = 0; i < names.length; i++) target[names[i]] = given[names[i]];
      return target;
    };
    copyTo(assert, members);
    // The strict assertion uses strict comparisons under the names of the loose ones.
    const { deepStrictEqual, notDeepStrictEqual, notStrictEqual, strictEqual } = members;
    function strict(...args) {
      checkTruthy(strict, args);
    }
    copyTo(strict, members);
    copyTo(strict, {
      deepEqual: deepStrictEqual, equal: strictEqual, notDeepEqual: notDeepStrictEqual, notEqual: notStrictEqual, strict,
    });
    assert.strict = strict;
    return assert;
  });
})
