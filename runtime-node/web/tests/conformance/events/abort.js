// Checks of AbortController and AbortSignal (DOM §3).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

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

check("a signal can be created in the aborted state, or from other signals", () => {
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
  let fired = 0;
  for (let i = 0; i < 2000; i++) {
    const signal = AbortSignal.any([controller.signal]);
    if (i % 100 === 0) signal.addEventListener("abort", () => fired++);
    if (i % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  controller.abort();
  equal(fired, 20);
});
