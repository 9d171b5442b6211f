// Checks of node:events.
import EventEmitter, { EventEmitterAsyncResource, addAbortListener, captureRejectionSymbol, errorMonitor, getEventListeners, once, on } from "node:events";
import { AsyncLocalStorage } from "node:async_hooks";
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:events");

check("the default export is EventEmitter, with the other exports as its properties", () => {
  equal([EventEmitter.EventEmitter === EventEmitter, EventEmitter.once === once, EventEmitter.defaultMaxListeners], [true, true, 10]);
});

check("listeners are called in order, with the emitter and the arguments", () => {
  const emitter = new EventEmitter();
  const seen = [];
  emitter.on("x", function (...args) { seen.push(this === emitter, ...args); });
  emitter.addListener("x", () => seen.push("second"));
  emitter.prependListener("x", () => seen.push("first"));
  equal(emitter.emit("x", 1, 2, 3, 4), true);
  equal(seen, ["first", true, 1, 2, 3, 4, "second"]);
  equal(emitter.emit("y"), false);
});

check("once calls a listener once, even if the event is emitted within it", () => {
  const emitter = new EventEmitter();
  let count = 0;
  emitter.once("x", () => {
    count++;
    emitter.emit("x");
  });
  emitter.emit("x");
  emitter.prependOnceListener("x", () => count++);
  emitter.emit("x");
  emitter.emit("x");
  equal([count, emitter.listenerCount("x")], [2, 0]);
});

check("the latest of equal listeners is removed first, and a delivery in progress is not affected", () => {
  const emitter = new EventEmitter();
  const seen = [];
  const a = () => { seen.push("a"); emitter.off("x", b); };
  const b = () => seen.push("b");
  emitter.on("x", a).on("x", b);
  emitter.emit("x");
  emitter.emit("x");
  equal(seen, ["a", "b", "a"]);
  emitter.once("x", b);
  emitter.removeListener("x", b);
  equal(emitter.listenerCount("x"), 1);
  emitter.removeAllListeners("x");
  equal(emitter.eventNames(), []);
});

check("listeners, rawListeners, eventNames and listenerCount describe the listeners", () => {
  const emitter = new EventEmitter();
  const symbol = Symbol("s");
  const fn = () => {};
  emitter.on("a", fn).once("a", fn).on(symbol, fn);
  equal([emitter.listeners("a").every((f) => f === fn), emitter.rawListeners("a")[1].listener === fn], [true, true]);
  equal([emitter.eventNames(), emitter.listenerCount("a"), emitter.listenerCount("a", fn), emitter.listenerCount("b")], [["a", symbol], 2, 2, 0]);
  equal(getEventListeners(emitter, "a").length, 2);
});

check("newListener is emitted before a listener is added, and removeListener after one is removed", () => {
  const emitter = new EventEmitter();
  const seen = [];
  emitter.on("newListener", (type, fn) => seen.push(`new ${String(type)} ${fn.name} ${emitter.listenerCount(type)}`));
  emitter.on("removeListener", (type, fn) => seen.push(`gone ${String(type)} ${fn.name}`));
  function x() {}
  emitter.once("x", x);
  emitter.off("x", x);
  equal(seen, ["new removeListener  0", "new x x 0", "gone x x"]);
});

check("an error event without a listener is thrown", () => {
  const emitter = new EventEmitter();
  throws("RangeError", () => emitter.emit("error", new RangeError("x")), "x");
  const error = throws("Error", () => emitter.emit("error", "text"), "Unhandled error. ('text')");
  equal([error.code, error.context], ["ERR_UNHANDLED_ERROR", "text"]);
  let monitored;
  emitter.on(errorMonitor, (error) => (monitored = error));
  throws("Error", () => emitter.emit("error", new Error("m")));
  equal(monitored.message, "m");
  emitter.on("error", () => {});
  equal(emitter.emit("error", 1), true);
});

check("rejections of listeners are captured if captureRejections is set", async () => {
  const emitter = new EventEmitter({ captureRejections: true });
  emitter.on("x", async () => { throw new TypeError("async"); });
  const error = new Promise((resolve) => emitter.on("error", resolve));
  emitter.emit("x");
  equal((await error).message, "async");
  class Own extends EventEmitter {
    [captureRejectionSymbol](error, type, ...args) { this.got = [error.message, type, ...args]; }
  }
  const own = new Own({ captureRejections: true });
  own.on("y", async () => { throw new Error("z"); });
  own.emit("y", 1);
  await new Promise((resolve) => setTimeout(resolve));
  equal(own.got, ["z", "y", 1]);
});

check("listeners must be functions", () => {
  equal(throws("TypeError", () => new EventEmitter().on("x", 1)).code, "ERR_INVALID_ARG_TYPE");
  throws("RangeError", () => new EventEmitter().setMaxListeners(-1));
});

check("too many listeners cause one warning", () => {
  const emitter = new EventEmitter().setMaxListeners(1);
  equal(emitter.getMaxListeners(), 1);
  logs("WARN", "MaxListenersExceededWarning: Possible EventEmitter memory leak detected. 2 x listeners added to [EventEmitter]. MaxListeners is 1. Use emitter.setMaxListeners() to increase limit", () => {
    for (let i = 0; i < 4; i++) emitter.on("x", () => {});
  });
});

check("constructor functions can inherit by calling EventEmitter", () => {
  function Old() { EventEmitter.call(this); }
  Object.setPrototypeOf(Old.prototype, EventEmitter.prototype);
  const [one, two] = [new Old(), new Old()];
  one.on("x", () => {});
  equal([one.listenerCount("x"), two.listenerCount("x")], [1, 0]);
  const mixed = Object.assign({}, EventEmitter.prototype);
  let seen = 0;
  mixed.on("x", () => seen++);
  mixed.emit("x");
  equal(seen, 1);
});

check("once returns a promise, and supports errors, signals and event targets", async () => {
  const emitter = new EventEmitter();
  setTimeout(() => emitter.emit("x", 1, 2));
  equal(await once(emitter, "x"), [1, 2]);
  setTimeout(() => emitter.emit("error", new RangeError("r")));
  await rejects("RangeError", once(emitter, "x"));
  setTimeout(() => emitter.emit("error", "as such"));
  equal(await once(emitter, "error"), ["as such"]);
  const controller = new AbortController();
  const waits = once(emitter, "x", { signal: controller.signal });
  controller.abort();
  equal((await rejects("AbortError", waits)).code, "ABORT_ERR");
  equal(emitter.listenerCount("x"), 0);
  const target = new EventTarget();
  setTimeout(() => target.dispatchEvent(new Event("y")));
  equal((await once(target, "y"))[0].type, "y");
});

check("on returns an async iterator over the events", async () => {
  const emitter = new EventEmitter();
  setTimeout(() => {
    emitter.emit("x", 1);
    emitter.emit("x", 2, 3);
    emitter.emit("end");
  });
  const seen = [];
  for await (const args of on(emitter, "x", { close: ["end"] })) seen.push(args);
  equal(seen, [[1], [2, 3]]);
  setTimeout(() => emitter.emit("error", new RangeError("r")));
  await rejects("RangeError", (async () => { for await (const _ of on(emitter, "x")); })());
  const iterator = on(emitter, "x");
  const next = iterator.next();
  await iterator.return();
  equal(await next, { value: undefined, done: true });
  equal([emitter.listenerCount("x"), emitter.listenerCount("error")], [0, 0]);
});

check("addAbortListener calls its listener once, and can be disposed", () => {
  const controller = new AbortController();
  let count = 0;
  addAbortListener(controller.signal, () => count++);
  addAbortListener(controller.signal, () => count++)[Symbol.dispose]();
  controller.abort();
  equal(count, 1);
});

check("listeners run in the context of emit, or in that in which an EventEmitterAsyncResource was created", () => {
  const storage = new AsyncLocalStorage();
  let seen;
  const plain = new EventEmitter();
  storage.run("listens", () => plain.on("x", () => (seen = storage.getStore())));
  storage.run("emits", () => plain.emit("x"));
  equal(seen, "emits");
  const bound = storage.run("made", () => new EventEmitterAsyncResource({ name: "Q" }));
  bound.on("x", () => (seen = storage.getStore()));
  storage.run("emits", () => bound.emit("x"));
  equal([seen, typeof bound.asyncId], ["made", "number"]);
});
