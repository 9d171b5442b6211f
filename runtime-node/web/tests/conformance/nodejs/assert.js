// Checks of node:assert.
import assert, { AssertionError, strict } from "node:assert";
import strictModule from "node:assert/strict";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const holds = (body) => body();
const fails = (body, part = "") => {
  const error = throws("AssertionError", body, part);
  equal([error instanceof AssertionError, error instanceof Error, error.code], [true, true, "ERR_ASSERTION"]);
  return error;
};

about("node:assert");

check("assert and ok require a truthy value", () => {
  holds(() => assert(1));
  holds(() => assert.ok("x"));
  fails(() => assert(0), "falsy");
  fails(() => assert.ok(), "No value");
  equal(fails(() => assert(false, "mine")).message, "mine");
  throws("RangeError", () => assert(false, new RangeError("own")), "own");
});

check("equal is loose, and strictEqual is strict", () => {
  holds(() => assert.equal(1, "1"));
  holds(() => assert.equal(NaN, NaN));
  fails(() => assert.equal(1, 2));
  holds(() => assert.notEqual(1, 2));
  fails(() => assert.notEqual(1, "1"));
  holds(() => assert.strictEqual(NaN, NaN));
  const error = fails(() => assert.strictEqual(1, "1"), "strictly equal");
  equal([error.actual, error.expected, error.operator, error.generatedMessage], [1, "1", "strictEqual", true]);
  fails(() => assert.strictEqual(0, -0));
  fails(() => assert.notStrictEqual(1, 1));
  equal(throws("TypeError", () => assert.equal(1)).code, "ERR_MISSING_ARGS");
});

check("deepEqual is loose, and deepStrictEqual is strict", () => {
  holds(() => assert.deepEqual({ a: [1, "2"] }, { a: ["1", 2] }));
  holds(() => assert.deepStrictEqual({ a: [1, new Set([1])] }, { a: [1, new Set([1])] }));
  fails(() => assert.deepStrictEqual({ a: 1 }, { a: "1" }));
  fails(() => assert.deepEqual({ a: 1 }, { a: 2 }));
  holds(() => assert.deepEqual({ [Symbol.species]: 1 }, {}));
  fails(() => assert.deepStrictEqual({ [Symbol.species]: 1 }, {}));
  holds(() => assert.notDeepStrictEqual({ a: 1 }, { a: "1" }));
  fails(() => assert.notDeepEqual([1], ["1"]));
});

check("throws and doesNotThrow check the exception", () => {
  const thrower = () => { throw new TypeError("wrong type"); };
  holds(() => assert.throws(thrower));
  holds(() => assert.throws(thrower, TypeError));
  holds(() => assert.throws(thrower, /wrong/));
  holds(() => assert.throws(thrower, { name: "TypeError", message: /type/ }));
  holds(() => assert.throws(thrower, (error) => error.message === "wrong type"));
  holds(() => assert.throws(thrower, new TypeError("wrong type")));
  fails(() => assert.throws(thrower, RangeError), "RangeError");
  fails(() => assert.throws(thrower, /right/));
  fails(() => assert.throws(thrower, { message: "other" }));
  fails(() => assert.throws(() => {}), "Missing expected exception");
  fails(() => assert.throws(() => {}, TypeError, "why"), "(TypeError): why");
  holds(() => assert.doesNotThrow(() => {}));
  fails(() => assert.doesNotThrow(thrower), "unwanted");
  equal(throws("TypeError", () => assert.throws(1)).code, "ERR_INVALID_ARG_TYPE");
});

check("rejects and doesNotReject check the reason of the rejection", async () => {
  await assert.rejects(Promise.reject(new TypeError("x")), TypeError);
  await assert.rejects(async () => { throw new Error("y"); }, { message: "y" });
  const missing = await assert.rejects(Promise.resolve(1)).catch((error) => error);
  equal(missing.message, "Missing expected rejection.");
  await assert.doesNotReject(Promise.resolve());
  equal((await assert.doesNotReject(Promise.reject(new Error("z"))).catch((error) => error)).name, "AssertionError");
});

check("match, doesNotMatch, fail and ifError throw as in Node.js", () => {
  holds(() => assert.match("abc", /b/));
  fails(() => assert.match("abc", /x/));
  fails(() => assert.match(1, /1/));
  holds(() => assert.doesNotMatch("abc", /x/));
  fails(() => assert.doesNotMatch("abc", /a/));
  equal(fails(() => assert.fail()).message, "Failed");
  throws("RangeError", () => assert.fail(new RangeError()));
  holds(() => assert.ifError(null));
  fails(() => assert.ifError(new Error("x")), "x");
});

check("strict has the strict functions under the names of the loose ones", () => {
  equal([assert.strict === strict, strict.strict === strict, strictModule === strict], [true, true, true]);
  equal(strict.equal === assert.strictEqual, true);
  fails(() => strict.equal(1, "1"));
  fails(() => strict.deepEqual([1], ["1"]));
  holds(() => strict(true));
});

check("an AssertionError can be constructed", () => {
  const error = new AssertionError({ actual: 1, expected: 2, operator: "strictEqual" });
  equal([error.name, error.generatedMessage, error.message.includes("1 !== 2")], ["AssertionError", true, true]);
  equal(new AssertionError({ message: "m" }).message, "m");
});
