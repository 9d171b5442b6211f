import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("Event");

check("an event has the attributes that it was created with", () => {
  const event = new Event("x", { cancelable: true, bubbles: 1 });
  equal(
    [event.type, event.cancelable, event.bubbles, event.composed, event.target, event.eventPhase, event.isTrusted],
    ["x", true, true, false, null, 0, false],
  );
  equal(Event.AT_TARGET, 2);
  equal(event.timeStamp, performance.now());
  throws("TypeError", () => new Event());
});

about("EventTarget");

check("listeners are called in order, each once", () => {
  const target = new EventTarget();
  const seen = [];
  const listener = () => seen.push("a");
  target.addEventListener("x", listener);
  target.addEventListener("x", listener);
  target.addEventListener("x", { handleEvent() { seen.push(this.name); }, name: "b" });
  target.addEventListener("x", () => seen.push("c"), { once: true });
  target.dispatchEvent(new Event("x"));
  target.dispatchEvent(new Event("y"));
  target.dispatchEvent(new Event("x"));
  target.removeEventListener("x", listener);
  target.dispatchEvent(new Event("x"));
  equal(seen, ["a", "b", "c", "a", "b", "b"]);
});

about("Event");

check("during delivery the event knows its target", () => {
  const target = new EventTarget();
  const event = new Event("x");
  target.addEventListener("x", function (e) {
    equal([e === event, e.target === target, e.currentTarget === target, e.eventPhase, this === target],
      [true, true, true, 2, true]);
    equal(e.composedPath().length, 1);
    throws("InvalidStateError", () => target.dispatchEvent(e));
  });
  target.dispatchEvent(event);
  equal([event.target === target, event.currentTarget, event.eventPhase], [true, null, 0]);
});

check("a default can be prevented if the event allows", () => {
  const target = new EventTarget();
  target.addEventListener("x", (e) => e.preventDefault());
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), false);
  equal(target.dispatchEvent(new Event("x")), true);
  const other = new EventTarget();
  other.addEventListener("x", (e) => e.preventDefault(), { passive: true });
  equal(other.dispatchEvent(new Event("x", { cancelable: true })), true);
});

check("propagation can be stopped at once", () => {
  const target = new EventTarget();
  const seen = [];
  target.addEventListener("x", (e) => { seen.push(1); e.stopImmediatePropagation(); });
  target.addEventListener("x", () => seen.push(2));
  target.dispatchEvent(new Event("x"));
  equal(seen, [1]);
});

about("EventTarget");

check("listeners may be added and removed during delivery", () => {
  const target = new EventTarget();
  const seen = [];
  const late = () => seen.push("late");
  const removed = () => seen.push("removed");
  target.addEventListener("x", () => {
    seen.push("first");
    target.addEventListener("x", late);
    target.removeEventListener("x", removed);
  });
  target.addEventListener("x", removed);
  target.dispatchEvent(new Event("x"));
  equal(seen, ["first"]);
});

check("an aborted signal removes its listeners", () => {
  const target = new EventTarget();
  const controller = new AbortController();
  let count = 0;
  target.addEventListener("x", () => count++, { signal: controller.signal });
  target.dispatchEvent(new Event("x"));
  controller.abort();
  target.dispatchEvent(new Event("x"));
  target.addEventListener("x", () => count++, { signal: controller.signal });
  target.dispatchEvent(new Event("x"));
  equal(count, 1);
});

check("an exception of a listener stops neither the others nor the caller", () => {
  const target = new EventTarget();
  const seen = [];
  const errors = [];
  const onError = (e) => { errors.push(e.error.message); e.preventDefault(); };
  addEventListener("error", onError);
  target.addEventListener("x", () => { throw new Error("mine"); });
  target.addEventListener("x", () => seen.push(2));
  equal(target.dispatchEvent(new Event("x")), true);
  removeEventListener("error", onError);
  equal([seen, errors], [[2], ["mine"]]);
});

check("the global scope is a target", () => {
  let target;
  addEventListener("mine", (e) => { target = e.target; }, { once: true });
  equal(dispatchEvent(new Event("mine")), true);
  equal(target === globalThis, true);
  equal(self === globalThis, true);
});

about("CustomEvent");

check("custom events carry a detail", () => {
  equal(new CustomEvent("x", { detail: 7 }).detail, 7);
  equal(new CustomEvent("x").detail, null);
  equal(new CustomEvent("x") instanceof Event, true);
});

about("EventTarget");

check("invalid events and listeners are rejected", () => {
  const target = new EventTarget();
  throws("TypeError", () => target.dispatchEvent({ type: "x" }));
  throws("TypeError", () => target.addEventListener("x", 1));
  throws("TypeError", () => target.addEventListener("x"));
  throws("TypeError", () => EventTarget.prototype.addEventListener.call({}, "x", () => {}));
  target.addEventListener("x", null);
});

about("AbortController");

check("a controller aborts its signal once", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const seen = [];
  signal.onabort = () => seen.push("on");
  signal.addEventListener("abort", (e) => seen.push(e.target === signal));
  equal([signal.aborted, signal.reason], [false, undefined]);
  signal.throwIfAborted();
  controller.abort();
  controller.abort("again");
  equal([signal.aborted, signal.reason.name, signal.reason.code, seen], [true, "AbortError", 20, ["on", true]]);
  throws("AbortError", () => signal.throwIfAborted());
});

about("AbortSignal");

check("a signal can be created aborted, or from other signals", () => {
  equal(AbortSignal.abort("r").reason, "r");
  const [a, b] = [new AbortController(), new AbortController()];
  const any = AbortSignal.any([a.signal, b.signal]);
  const later = AbortSignal.any([any]);
  b.abort("b");
  a.abort("a");
  equal([any.reason, later.reason], ["b", "b"]);
  equal(AbortSignal.any([a.signal]).reason, "a");
  equal(AbortSignal.any([]).aborted, false);
  throws("TypeError", () => new AbortSignal());
  throws("TypeError", () => AbortSignal.any([1]));
});

check("a signal can time out", async () => {
  const signal = AbortSignal.timeout(1);
  equal(signal.aborted, false);
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  equal(signal.reason.name, "TimeoutError");
  throws("TypeError", () => AbortSignal.timeout(-1));
  throws("TypeError", () => AbortSignal.timeout());
});

about("EventTarget");

check("listeners that capture come before the others", () => {
  const target = new EventTarget();
  const seen = [];
  target.addEventListener("x", () => seen.push("bubble"));
  target.addEventListener("x", () => seen.push("capture"), true);
  target.addEventListener("x", () => seen.push("capture again"), { capture: true });
  target.dispatchEvent(new Event("x"));
  equal(seen, ["capture", "capture again", "bubble"]);
});

check("a capturing listener that stops propagation stops only the listeners that do not capture", () => {
  const target = new EventTarget();
  const seen = [];
  target.addEventListener("x", () => seen.push("bubble"));
  target.addEventListener("x", (event) => (seen.push("stop"), event.stopPropagation()), true);
  target.addEventListener("x", () => seen.push("capture"), true);
  target.dispatchEvent(new Event("x"));
  equal(seen, ["stop", "capture"]);
});

about("Event");

check("an event that is stopped before its dispatch reaches no listener until it is dispatched again", () => {
  const target = new EventTarget();
  let heard = 0;
  target.addEventListener("x", () => heard++);
  const event = new Event("x");
  event.stopPropagation();
  equal([target.dispatchEvent(event), heard, event.cancelBubble], [true, 0, false]);
  target.dispatchEvent(event);
  equal(heard, 1);
});

about("EventTarget");

check("the same function may be a handler and a listener", () => {
  const { signal } = new AbortController();
  let heard = 0;
  const both = () => heard++;
  const controller = new AbortController();
  controller.signal.onabort = both;
  controller.signal.addEventListener("abort", both);
  controller.abort();
  equal([heard, signal.aborted], [2, false]);
});

check("a passive listener cannot prevent", () => {
  const target = new EventTarget();
  target.addEventListener("x", (event) => {
    event.preventDefault();
    event.returnValue = false;
  }, { passive: true });
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), true);
  target.addEventListener("x", (event) => event.preventDefault(), { passive: false });
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), false);
});

check("an aborted signal removes its listeners", () => {
  const target = new EventTarget();
  const controller = new AbortController();
  let heard = 0;
  target.addEventListener("x", () => heard++, { signal: controller.signal });
  target.dispatchEvent(new Event("x"));
  controller.abort();
  target.dispatchEvent(new Event("x"));
  target.addEventListener("x", () => heard++, { signal: AbortSignal.abort() });
  target.dispatchEvent(new Event("x"));
  equal(heard, 1);
  throws("TypeError", () => target.addEventListener("x", () => {}, { signal: null }));
  throws("TypeError", () => target.addEventListener("x", () => {}, { signal: {} }));
});

check("listeners added during delivery are not called for that event, and neither are removed ones", () => {
  const target = new EventTarget();
  const seen = [];
  const second = () => seen.push("second");
  target.addEventListener("x", () => {
    seen.push("first");
    target.removeEventListener("x", second);
    target.addEventListener("x", () => seen.push("added"), { once: true });
  }, { once: true });
  target.addEventListener("x", second);
  target.dispatchEvent(new Event("x"));
  equal(seen, ["first"]);
  target.dispatchEvent(new Event("x"));
  equal(seen, ["first", "added"]);
});

about("Event");

check("only events that the platform fires are trusted", () => {
  const controller = new AbortController();
  let kept;
  controller.signal.onabort = (event) => { kept = event; };
  controller.abort();
  equal([kept.isTrusted, new Event("x").isTrusted], [true, false]);
  controller.signal.onabort = null;
  controller.signal.dispatchEvent(kept);
  equal(kept.isTrusted, false);
});

about("CustomEvent");

check("initCustomEvent initializes an event again, but not while it is dispatched", () => {
  const event = new CustomEvent("x", { detail: 1 });
  event.initCustomEvent("y", true, true, 2);
  equal([event.type, event.bubbles, event.cancelable, event.detail], ["y", true, true, 2]);
  const target = new EventTarget();
  target.addEventListener("y", () => event.initCustomEvent("z", false, false, 3));
  target.dispatchEvent(event);
  equal([event.type, event.detail, new CustomEvent("x").detail, new CustomEvent("x", { detail: undefined }).detail], ["y", 2, null, null]);
  throws("TypeError", () => event.initCustomEvent());
});

about("AbortSignal");

check("AbortSignal.any follows the first signal to abort, through any number of signals", () => {
  const [a, b] = [new AbortController(), new AbortController()];
  const inner = AbortSignal.any([a.signal, a.signal]);
  const outer = AbortSignal.any([inner, b.signal]);
  const later = AbortSignal.any([outer]);
  a.abort("a");
  b.abort("b");
  equal([inner.reason, outer.reason, later.reason, AbortSignal.any([b.signal, outer]).reason], ["a", "a", "a", "b"]);
  throws("TypeError", () => AbortSignal.any());
  throws("TypeError", () => AbortSignal.any(1));
  throws("TypeError", () => AbortSignal.any({}));
});

check("all dependent signals are aborted before any event fires", () => {
  const controller = new AbortController();
  const seen = [];
  const first = AbortSignal.any([controller.signal]);
  const second = AbortSignal.any([first]);
  controller.signal.addEventListener("abort", () => seen.push("source", first.aborted, second.aborted));
  second.addEventListener("abort", () => seen.push("second"));
  first.addEventListener("abort", () => seen.push("first"));
  controller.abort();
  equal(seen, ["source", true, true, "first", "second"]);
});

check("AbortSignal.any of an aborted signal fires no event", async () => {
  const signal = AbortSignal.any([AbortSignal.abort("r")]);
  let fired = false;
  signal.onabort = () => { fired = true; };
  await null;
  equal([signal.aborted, signal.reason, fired], [true, "r", false]);
});

check("a dependent signal with a listener is not garbage-collected", async () => {
  const controller = new AbortController();
  let told = 0;
  for (let i = 0; i < 2000; i++) {
    const signal = AbortSignal.any([controller.signal]);
    if (i % 100 === 0) signal.addEventListener("abort", () => told++);
    if (i % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  controller.abort();
  equal(told, 20);
});

about("EventTarget");

check("an object that is not a function may be a handler, and is never called", () => {
  const { signal } = new AbortController();
  let asked = 0;
  signal.onabort = { get handleEvent() { asked++; return () => asked++; } };
  signal.dispatchEvent(new Event("abort"));
  equal(asked, 0);
});

check("a handler attribute takes only objects", () => {
  const { signal } = new AbortController();
  const handler = () => {};
  signal.onabort = handler;
  equal(signal.onabort === handler, true);
  signal.onabort = 1;
  equal(signal.onabort, null);
});

about("DOMException");

check("a DOMException is an error with a code", () => {
  const error = new DOMException("m", "NotFoundError");
  equal([error.message, error.name, error.code, error instanceof Error, `${error}`],
    ["m", "NotFoundError", 8, true, "NotFoundError: m"]);
  equal([new DOMException().name, new DOMException("m", "Mine").code], ["Error", 0]);
  equal(DOMException.DATA_CLONE_ERR, 25);
  equal(typeof error.stack, "string");
});

about("timers");

check("a microtask runs before a timer", async () => {
  const seen = [];
  setTimeout(() => seen.push("timer"), 0);
  queueMicrotask(() => seen.push("microtask"));
  seen.push("now");
  await new Promise((resolve) => setTimeout(resolve, 1));
  equal(seen, ["now", "microtask", "timer"]);
  throws("TypeError", () => queueMicrotask(1));
});

about("Event");

check("isTrusted is an own accessor that cannot be redefined", () => {
  const event = new Event("x");
  const { get, set, enumerable, configurable } = Object.getOwnPropertyDescriptor(event, "isTrusted");
  equal([get.name, set, enumerable, configurable], ["get isTrusted", undefined, true, false]);
  equal([get === Object.getOwnPropertyDescriptor(new CustomEvent("y"), "isTrusted").get, "isTrusted" in Event.prototype], [true, false]);
  throws("TypeError", () => get.call({}));
});

check("the members of an event's init are read in order, those of the base dictionary first", () => {
  const read = [];
  const init = new Proxy({}, { get: (_, name) => void read.push(name) });
  new CustomEvent({ toString: () => (read.push("type"), "x") }, init);
  equal(read, ["type", "bubbles", "cancelable", "composed", "detail"]);
  throws("TypeError", () => new Event("x", 1));
  equal(new Event("x", null).type, "x");
});

about("EventTarget");

check("an invalid listener is rejected before the options are read", () => {
  const target = new EventTarget();
  const options = { get capture() { throw new Error("read"); } };
  throws("TypeError", () => target.addEventListener("x", 1, options), "not an object");
  throws("Error", () => target.addEventListener("x", null, options), "read");
  throws("TypeError", () => target.addEventListener("x", () => {}, { signal: null }));
});

about("timers");

check("a timer calls its function with the global object as receiver and the given arguments", async () => {
  const called = await new Promise((resolve) => setTimeout(function (...args) { resolve([this === globalThis, args]); }, 0, 1, "b"));
  equal(called, [true, [1, "b"]]);
});

check("a delay is converted to a long, and a negative one counts as zero", async () => {
  const inTime = (delay) => new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${delay} is late`)), 2000);
    setTimeout(() => resolve(clearTimeout(late)), delay);
  });
  for (const delay of [undefined, null, "x", NaN, -1, 2 ** 31, 2 ** 32, 2 ** 32 + 5, { valueOf: () => 1 }]) await inTime(delay);
  throws("TypeError", () => setTimeout(() => {}, 1n));
  throws("TypeError", () => setTimeout(() => {}, Symbol()));
  throws("TypeError", () => setTimeout());
  throws("TypeError", () => setInterval("code"));
});

check("ids are positive integers that either function clears, and other values are ignored", async () => {
  let called = 0;
  const ids = [setTimeout(() => called++, 1), setInterval(() => called++, 1), setTimeout(() => called++, 1)];
  equal(ids.map((id) => Number.isInteger(id) && id > 0), [true, true, true]);
  clearInterval(ids[0]);
  clearTimeout(ids[1]);
  clearTimeout(`${ids[2]}`);
  for (const nothing of [undefined, null, "x", {}, -1, 0]) equal([clearTimeout(nothing), clearInterval(nothing)], [undefined, undefined]);
  await new Promise((resolve) => setTimeout(resolve, 10));
  equal(called, 0);
});

check("timers with the same delay fire in order, with microtasks between them", async () => {
  const order = [];
  setTimeout(() => order.push("late"), 3);
  setTimeout(() => (order.push("first"), queueMicrotask(() => order.push("microtask"))));
  setTimeout(() => order.push("second"));
  await new Promise((resolve) => setTimeout(resolve, 20));
  equal(order, ["first", "microtask", "second", "late"]);
});

about("DOMException");

check("a DOMException is an Error", () => {
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
