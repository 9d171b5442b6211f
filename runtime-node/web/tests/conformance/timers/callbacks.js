// Checks of the order, delay, ids and arguments of timers and microtasks (HTML §8.6, §8.7).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

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

check("a timer calls its function with the global object as receiver and the given arguments", async () => {
  const called = await new Promise((resolve) => setTimeout(function (...args) { resolve([this === globalThis, args]); }, 0, 1, "b"));
  equal(called, [true, [1, "b"]]);
});

check("a delay is converted to a long, and a negative delay counts as zero", async () => {
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
