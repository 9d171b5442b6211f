// Checks of Event, EventTarget and CustomEvent (DOM §2), and event handlers (HTML §8.1.8).
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

check("an event has its target as currentTarget only during delivery", () => {
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

check("the default can be prevented if the event is cancelable", () => {
  const target = new EventTarget();
  target.addEventListener("x", (e) => e.preventDefault());
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), false);
  equal(target.dispatchEvent(new Event("x")), true);
  const other = new EventTarget();
  other.addEventListener("x", (e) => e.preventDefault(), { passive: true });
  equal(other.dispatchEvent(new Event("x", { cancelable: true })), true);
});

check("propagation can be stopped immediately", () => {
  const target = new EventTarget();
  const seen = [];
  target.addEventListener("x", (e) => { seen.push(1); e.stopImmediatePropagation(); });
  target.addEventListener("x", () => seen.push(2));
  target.dispatchEvent(new Event("x"));
  equal(seen, [1]);
});

about("EventTarget");

check("an exception in a listener stops neither the other listeners nor the caller", () => {
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

check("listeners that capture are called before the others", () => {
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
  let heard = 0;
  const both = () => heard++;
  const controller = new AbortController();
  controller.signal.onabort = both;
  controller.signal.addEventListener("abort", both);
  controller.abort();
  equal(heard, 2);
});

check("a passive listener cannot prevent the default", () => {
  const target = new EventTarget();
  target.addEventListener("x", (event) => {
    event.preventDefault();
    event.returnValue = false;
  }, { passive: true });
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), true);
  target.addEventListener("x", (event) => event.preventDefault(), { passive: false });
  equal(target.dispatchEvent(new Event("x", { cancelable: true })), false);
});

check("an aborted signal removes its listeners, and a value that is not a signal is refused", () => {
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

check("listeners that are added or removed during delivery are not called for that event", () => {
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
});
