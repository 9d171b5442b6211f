// Checks of node:async_hooks: AsyncLocalStorage and AsyncResource.
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import hooks from "async_hooks";
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const wait = (milliseconds = 1) => new Promise((resolve) => setTimeout(resolve, milliseconds));

about("node:async_hooks");

check("a module is the same with and without its scheme, and by import()", async () => {
  equal(hooks.AsyncLocalStorage === AsyncLocalStorage, true);
  const namespace = await import("node:async_hooks");
  equal(namespace.default === hooks, true);
  equal(Object.keys(namespace).sort(), ["AsyncLocalStorage", "AsyncResource", "default"]);
});

check("run sets the store for its callback, and passes on arguments, result and exception", () => {
  const storage = new AsyncLocalStorage();
  equal(storage.getStore(), undefined);
  equal(storage.run(1, (a, b) => [storage.getStore(), a, b], 2, 3), [1, 2, 3]);
  equal(storage.getStore(), undefined);
  throws("RangeError", () => storage.run(1, () => { throw new RangeError("x"); }));
  equal(storage.getStore(), undefined);
  throws("TypeError", () => storage.run(1, undefined));
});

check("runs nest, and storages are independent", () => {
  const one = new AsyncLocalStorage();
  const two = new AsyncLocalStorage();
  one.run("a", () => {
    two.run("b", () => {
      one.run("c", () => equal([one.getStore(), two.getStore()], ["c", "b"]));
      equal([one.getStore(), two.getStore()], ["a", "b"]);
    });
    equal([one.getStore(), two.getStore()], ["a", undefined]);
  });
});

check("a store is propagated through promises, await, async generators and thenables", async () => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  const see = (what) => seen.push(`${what} ${storage.getStore()}`);
  await Promise.all([1, 2].map((id) => storage.run(id, async () => {
    see("start");
    await null;
    see("await");
    await Promise.resolve().then(() => see("then"));
    await { then(resolve) { see("thenable"); resolve(); } };
    for await (const _ of (async function* () { await null; see("generator"); yield 1; })()) see("loop");
    await Promise.reject(new Error("x")).catch(() => see("catch")).finally(() => see("finally"));
  })));
  for (const what of ["start", "await", "then", "thenable", "generator", "loop", "catch", "finally"]) {
    equal(seen.filter((line) => line.startsWith(`${what} `)).sort(), [`${what} 1`, `${what} 2`]);
  }
  equal(storage.getStore(), undefined);
});

check("a store is propagated through timers, intervals, immediates and microtasks", async () => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  await storage.run("here", () => new Promise((resolve) => {
    queueMicrotask(() => seen.push(`microtask ${storage.getStore()}`));
    process.nextTick(() => seen.push(`tick ${storage.getStore()}`));
    setImmediate(() => seen.push(`immediate ${storage.getStore()}`));
    setTimeout(() => {
      seen.push(`timeout ${storage.getStore()}`);
      let count = 0;
      const interval = setInterval(() => {
        seen.push(`interval ${storage.getStore()}`);
        if (++count === 3) {
          clearInterval(interval);
          resolve();
        }
      }, 1);
    }, 5);
  }));
  equal(seen.sort(), [
    "immediate here", "interval here", "interval here", "interval here", "microtask here", "tick here", "timeout here",
  ]);
  const outside = await new Promise((resolve) => setTimeout(() => resolve(storage.getStore())));
  equal(outside, undefined);
});

check("a store is propagated through asynchronous native operations", async () => {
  const storage = new AsyncLocalStorage();
  await storage.run("here", async () => {
    await scheduler.wait(1);
    equal(storage.getStore(), "here");
    equal(await new Response(new Blob(["x"]).stream()).text(), "x");
    equal(storage.getStore(), "here");
    await crypto.subtle.digest("SHA-256", new Uint8Array(1 << 20));
    equal(storage.getStore(), "here");
  });
});

check("streams call their source in the context that caused the call", async () => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  const stream = storage.run("made", () => new ReadableStream({
    start() { seen.push(storage.getStore()); },
    async pull(controller) {
      await wait();
      controller.enqueue(storage.getStore());
      controller.close();
    },
  }));
  for await (const chunk of stream) seen.push(chunk);
  equal(seen, ["made", "made"]);
});

check("an event's listeners run in the context of the dispatch", () => {
  const storage = new AsyncLocalStorage();
  const target = new EventTarget();
  let seen;
  storage.run("listens", () => target.addEventListener("x", () => (seen = storage.getStore())));
  storage.run("dispatches", () => target.dispatchEvent(new Event("x")));
  equal(seen, "dispatches");
});

check("enterWith sets the store for the rest of the current execution", async () => {
  const storage = new AsyncLocalStorage();
  await (async () => {
    await null;
    storage.enterWith(1);
    equal(storage.getStore(), 1);
    await wait();
    equal(storage.getStore(), 1);
    storage.enterWith(2);
    equal(storage.getStore(), 2);
  })();
});

check("exit clears the store for its callback", () => {
  const storage = new AsyncLocalStorage();
  const other = new AsyncLocalStorage();
  storage.run(1, () => other.run(2, () => {
    equal(storage.exit((a) => [storage.getStore(), other.getStore(), a], 3), [undefined, 2, 3]);
    equal(storage.getStore(), 1);
  }));
});

check("disable clears the store until the next run", async () => {
  const storage = new AsyncLocalStorage();
  await storage.run(1, async () => {
    storage.disable();
    equal(storage.getStore(), undefined);
    await wait();
    equal(storage.getStore(), undefined);
    storage.run(2, () => equal(storage.getStore(), 2));
  });
});

check("a storage may have a name and a default", () => {
  const storage = new AsyncLocalStorage({ defaultValue: 7, name: "seven" });
  equal([storage.name, storage.getStore(), storage.run(undefined, () => storage.getStore())], ["seven", 7, undefined]);
});

check("bind and snapshot capture the current stores", () => {
  const storage = new AsyncLocalStorage();
  const bound = storage.run(1, () => AsyncLocalStorage.bind(function (a) { return [storage.getStore(), this, a]; }));
  const self = {};
  const [store, receiver, argument] = storage.run(2, () => bound.call(self, 3));
  equal([store, receiver === self, argument], [1, true, 3]);
  equal([bound.name, bound.length], ["bound ", 1]);
  const snapshot = storage.run(4, () => AsyncLocalStorage.snapshot());
  equal(storage.run(5, () => snapshot((a, b) => [storage.getStore(), a + b], 1, 2)), [4, 3]);
  equal(snapshot(() => storage.run(6, () => snapshot(() => storage.getStore()))), 4);
  throws("TypeError", () => AsyncLocalStorage.bind(1));
  throws("TypeError", () => snapshot(1));
});

check("an AsyncResource runs functions in the context of its creation", () => {
  const storage = new AsyncLocalStorage();
  const resource = storage.run(1, () => new AsyncResource("test"));
  const self = {};
  const [store, receiver, sum] = resource.runInAsyncScope(
    function (a, b) { return [storage.getStore(), this, a + b]; }, self, 1, 2);
  equal([store, receiver === self, sum], [1, true, 3]);
  equal(resource.bind(() => storage.getStore())(), 1);
  equal(resource.bind(function () { return this === self; }, self)(), true);
  equal(storage.run(2, () => AsyncResource.bind(() => storage.getStore()))(), 2);
  equal(typeof resource.asyncId(), "number");
  equal(new AsyncResource("a", { triggerAsyncId: 7 }).triggerAsyncId(), 7);
  equal(resource.emitDestroy() === resource, true);
  throws("TypeError", () => new AsyncResource());
  class Task extends AsyncResource {
    constructor() { super("Task"); }
    run() { return this.runInAsyncScope(() => storage.getStore()); }
  }
  equal(storage.run(3, () => new Task()).run(), 3);
});

check("a store is kept when a promise is rejected", async () => {
  const storage = new AsyncLocalStorage();
  await storage.run(1, async () => {
    await rejects("TypeError", Promise.reject(new TypeError("x")));
    equal(storage.getStore(), 1);
  });
});

check("the handlers of an HTMLRewriter run with the store of the call to transform", async () => {
  const storage = new AsyncLocalStorage();
  const seen = [];
  const see = () => void seen.push(storage.getStore());
  const rewriter = storage.run("on", () => new HTMLRewriter().on("p", {
    async element(p) {
      see();
      await scheduler.wait(1);
      see();
      p.onEndTag(see);
    },
  }));
  const response = storage.run("transform", () => rewriter.transform(new Response("<p></p>")));
  await storage.run("read", () => response.text());
  equal([seen, storage.getStore()], [["transform", "transform", "transform"], undefined]);
});
