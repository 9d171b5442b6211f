// Checks of uncaught errors and unhandled rejections (HTML §8.1.4): the events that they fire, and
// the lines that they log.
import { about, check, equal, logs, throws } from "../check.js";
export { default } from "../check.js";

/** Waits until the turns that are due have run. */
const dueTurns = () => new Promise((resolve) => setTimeout(resolve, 2));

/**
 * Runs `body` and the turns that are due after it, and returns the events of `type` at the global
 * scope. Prevents the events' default actions if `prevent` is true.
 */
async function eventsDuring(type, body, prevent = true) {
  const events = [];
  const listener = (event) => {
    events.push(event);
    if (prevent) event.preventDefault();
  };
  addEventListener(type, listener);
  try {
    await body();
    await dueTurns();
  } finally {
    removeEventListener(type, listener);
  }
  return events;
}

about("reportError");

check("reportError fires an error event at the global scope", async () => {
  const error = new TypeError("mine");
  const [event, ...rest] = await eventsDuring("error", () => reportError(error));
  equal([rest.length, event instanceof ErrorEvent, event.type, event.error === error, event.message, event.cancelable, event.isTrusted],
    [0, true, "error", true, "Uncaught TypeError: mine", true, true]);
  equal([event.filename.endsWith("errors.js"), event.lineno > 20, event.colno > 0, event.target === globalThis], [true, true, true, true]);
  throws("TypeError", () => reportError());
});

check("any value can be reported", async () => {
  const events = await eventsDuring("error", () => {
    for (const value of [1, null, undefined, "text", { a: 1 }]) reportError(value);
  });
  equal(events.map(({ error }) => error), [1, null, undefined, "text", { a: 1 }]);
});

check("an error is logged unless its event's default is prevented", async () => {
  logs("ERROR", "Uncaught 'not prevented'", () => {});
  const events = await eventsDuring("error", () => reportError("not prevented"), false);
  equal(events.length, 1);
});

check("exceptions in timers, microtasks and listeners are reported", async () => {
  const events = await eventsDuring("error", async () => {
    setTimeout(() => { throw 1; });
    queueMicrotask(() => { throw 2; });
    const target = new EventTarget();
    target.addEventListener("x", () => { throw 3; });
    target.addEventListener("x", {});
    target.dispatchEvent(new Event("x"));
    await dueTurns();
  });
  equal(events.map(({ error }) => (error instanceof TypeError ? "TypeError" : error)), [3, "TypeError", 2, 1]);
});

check("an exception in an error listener is logged, and fires no event", async () => {
  logs("ERROR", "Uncaught 'inner'", () => {});
  let fired = 0;
  const listener = (event) => {
    fired++;
    event.preventDefault();
    throw "inner";
  };
  addEventListener("error", listener);
  reportError("outer");
  removeEventListener("error", listener);
  equal(fired, 1);
});

about("onerror");

check("onerror is called with the details of an error, and prevents the default by returning true", () => {
  const seen = [];
  globalThis.onerror = function (...args) {
    seen.push(args, this === globalThis);
    return true;
  };
  equal(typeof onerror, "function");
  const error = new Error("e");
  reportError(error);
  globalThis.onerror = 1;
  equal(onerror, null);
  const [[message, file, line, column, value], isGlobal] = seen;
  equal([message, typeof file, typeof line, typeof column, value === error, isGlobal],
    ["Uncaught Error: e", "string", "number", "number", true, true]);
});

about("unhandledrejection, rejectionhandled");

check("an unhandled rejection fires an event", async () => {
  const reason = new Error("left alone");
  let promise;
  const [event, ...rest] = await eventsDuring("unhandledrejection", () => { promise = Promise.reject(reason); });
  equal([rest.length, event instanceof PromiseRejectionEvent, event.promise === promise, event.reason === reason, event.cancelable, event.isTrusted],
    [0, true, true, true, true, true]);
  await promise.catch(() => {});
});

check("a rejection that is handled within the turn fires no event", async () => {
  const events = await eventsDuring("unhandledrejection", async () => {
    const promise = Promise.reject(1);
    await null;
    await promise.catch(() => {});
  });
  equal(events, []);
});

check("an unhandled rejection is logged unless its event's default is prevented", async () => {
  logs("ERROR", "unhandled rejection: not prevented", () => {});
  const events = await eventsDuring("unhandledrejection", () => { Promise.reject("not prevented"); }, false);
  equal(events.length, 1);
});

check("a rejection that is handled later fires rejectionhandled", async () => {
  let promise;
  await eventsDuring("unhandledrejection", () => { promise = Promise.reject("late"); });
  const [event] = await eventsDuring("rejectionhandled", () => { promise.catch(() => {}); });
  equal([event.type, event.promise === promise, event.reason, event.cancelable], ["rejectionhandled", true, "late", false]);
  const none = await eventsDuring("rejectionhandled", () => { promise.catch(() => {}); });
  equal(none, []);
});

check("handler attributes are called for rejections", async () => {
  const seen = [];
  globalThis.onunhandledrejection = (event) => {
    seen.push(event.reason);
    return false;
  };
  globalThis.onrejectionhandled = (event) => seen.push(event.type);
  const promise = Promise.reject("r");
  await dueTurns();
  promise.catch(() => {});
  await dueTurns();
  equal(seen, ["r", "rejectionhandled"]);
  globalThis.onunhandledrejection = globalThis.onrejectionhandled = null;
  equal([onunhandledrejection, onrejectionhandled], [null, null]);
});

check("work that a handler starts continues within the invocation", async () => {
  const done = new Promise((resolve) => {
    addEventListener("unhandledrejection", (event) => {
      event.preventDefault();
      setTimeout(() => queueMicrotask(() => resolve(event.reason)));
    }, { once: true });
  });
  Promise.reject("asynchronously");
  equal(await done, "asynchronously");
});

about("ErrorEvent");

check("the events can be constructed", () => {
  const error = new ErrorEvent("e", { message: "m", filename: "f", lineno: 1, colno: -1, error: 5, cancelable: true });
  equal([error.type, error.message, error.filename, error.lineno, error.colno, error.error, error.cancelable],
    ["e", "m", "f", 1, 2 ** 32 - 1, 5, true]);
  equal([new ErrorEvent("e").message, new ErrorEvent("e").error, new ErrorEvent("e").lineno], ["", undefined, 0]);
  const promise = Promise.resolve();
  const rejection = new PromiseRejectionEvent("r", { promise, reason: 1 });
  equal([rejection.promise === promise, rejection.reason], [true, 1]);
  throws("TypeError", () => new PromiseRejectionEvent("r"));
  throws("TypeError", () => new PromiseRejectionEvent("r", { promise: 1 }));
  throws("TypeError", () => new ErrorEvent());
});
