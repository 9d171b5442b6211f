// Checks of the global scope: navigator, queueMicrotask, scheduler and self.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("Navigator");

check("navigator reveals nothing about the machine", () => {
  equal([typeof navigator.userAgent, navigator.hardwareConcurrency, navigator.language, navigator.languages], ["string", 1, "en", ["en"]]);
  equal([navigator.languages === navigator.languages, Object.isFrozen(navigator.languages), String(navigator)], [true, true, "[object Navigator]"]);
  throws("TypeError", () => new Navigator());
});

about("queueMicrotask");

check("queueMicrotask calls a function once, without arguments, and reports its exception", async () => {
  const seen = [];
  equal(queueMicrotask(function (...args) { seen.push(args.length, this === undefined || this === globalThis); }), undefined);
  equal(seen, []);
  await null;
  equal(seen, [0, true]);
  throws("TypeError", () => queueMicrotask());
  throws("TypeError", () => queueMicrotask({}));
  equal(queueMicrotask.length, 1);
});

about("Scheduler");

check("scheduler.wait waits", async () => {
  const before = performance.now();
  equal(await scheduler.wait(5), undefined);
  equal(performance.now() - before >= 4, true);
  await rejects("TypeError", scheduler.wait());
  await rejects("TypeError", scheduler.wait(1, { signal: {} }));
  await rejects("TypeError", scheduler.wait(1, 1));
  equal(await scheduler.wait(0, { signal: undefined }), undefined);
  throws("TypeError", () => new Scheduler());
});

check("scheduler.wait can be aborted", async () => {
  await rejects("AbortError", scheduler.wait(60_000, { signal: AbortSignal.abort() }));
  const controller = new AbortController();
  setTimeout(() => controller.abort("enough"), 1);
  try {
    await scheduler.wait(60_000, { signal: controller.signal });
    throw new Error("waited");
  } catch (reason) {
    equal(reason, "enough");
  }
  const other = new AbortController();
  await scheduler.wait(1, { signal: other.signal });
  other.abort();
});

about("EventTarget");

check("self and globalThis are the global scope, which is an event target", () => {
  equal([self === globalThis, globalThis.globalThis === globalThis], [true, true]);
  let heard = 0;
  addEventListener("x", function (event) { heard += this === globalThis && event.target === globalThis; }, { once: true });
  globalThis.dispatchEvent(new Event("x"));
  self.dispatchEvent(new Event("x"));
  equal(heard, 1);
});
