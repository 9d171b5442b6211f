// Checks of DOMException and QuotaExceededError (Web IDL).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("DOMException");

check("a DOMException is an error with a code", () => {
  const error = new DOMException("m", "NotFoundError");
  equal([error.message, error.name, error.code, error instanceof Error, `${error}`],
    ["m", "NotFoundError", 8, true, "NotFoundError: m"]);
  equal([new DOMException().name, new DOMException("m", "Mine").code], ["Error", 0]);
  equal(DOMException.DATA_CLONE_ERR, 25);
  equal(typeof error.stack, "string");
});

check("a DOMException has the stack and the cause of an Error, and can be extended", () => {
  const error = new DOMException("message", { name: "AbortError", cause: 1 });
  equal([Error.isError(error), error instanceof Error, `${error}`, error.cause], [true, true, "AbortError: message", 1]);
  equal(Object.getPrototypeOf(DOMException) === Function.prototype, true);
  equal(error.stack.startsWith("AbortError: message\n    at "), true);
  equal(Reflect.ownKeys(new DOMException("m")).filter((key) => key !== "stack"), []);
  class Mine extends DOMException {}
  equal([new Mine("m", "N").name, new Mine() instanceof Mine, Error.isError(new Mine())], ["N", true, true]);
});

about("QuotaExceededError");

check("a QuotaExceededError is a DOMException with an optional quota and requested amount", () => {
  const error = new QuotaExceededError("m", { quota: 1, requested: "2" });
  equal([error.name, error.message, error.code, error.quota, error.requested], ["QuotaExceededError", "m", 22, 1, 2]);
  equal([error instanceof DOMException, Error.isError(error)], [true, true]);
  equal([new QuotaExceededError().quota, new QuotaExceededError().requested], [null, null]);
  for (const init of [{ quota: -1 }, { requested: -1 }, { quota: 2, requested: 1 }]) {
    throws("RangeError", () => new QuotaExceededError("", init));
  }
  throws("TypeError", () => new QuotaExceededError("", { quota: NaN }));
  const caught = throws("QuotaExceededError", () => crypto.getRandomValues(new Uint8Array(65537)));
  equal([caught.quota, caught.requested], [65536, 65537]);
  const { name, quota, requested } = structuredClone(error);
  equal([name, quota, requested, structuredClone(error).constructor.name], ["QuotaExceededError", 1, 2, "QuotaExceededError"]);
});
