// Checks of Performance (High Resolution Time), and of its marks and measures (User Timing).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const shown = (list) => list.map(({ name, entryType, startTime, duration }) => [name, entryType, startTime, duration]);
const clean = () => {
  performance.clearMarks();
  performance.clearMeasures();
};

about("Performance");

check("the clock counts from its origin and never goes backwards", async () => {
  const start = performance.now();
  equal([typeof start, performance.timeOrigin + start <= Date.now() + 1], ["number", true]);
  await new Promise((resolve) => setTimeout(resolve, 2));
  equal(performance.now() > start, true);
  equal(performance.toJSON(), { timeOrigin: performance.timeOrigin });
});

about("PerformanceMark");

check("a mark has the current time, or the given time", () => {
  clean();
  const now = performance.now();
  const mark = performance.mark("m");
  equal([mark instanceof PerformanceMark, mark instanceof PerformanceEntry, mark.name, mark.entryType, mark.duration, mark.detail],
    [true, true, "m", "mark", 0, null]);
  equal(mark.startTime >= now, true);
  const source = { a: [1] };
  const other = performance.mark("n", { startTime: 5, detail: source });
  source.a.push(2);
  equal([other.startTime, other.detail, other.detail === other.detail], [5, { a: [1] }, true]);
  throws("TypeError", () => performance.mark("x", { startTime: -1 }));
  throws("TypeError", () => performance.mark("x", { startTime: NaN }));
  throws("TypeError", () => performance.mark());
  throws("DataCloneError", () => performance.mark("x", { detail: () => {} }));
  equal(performance.getEntries().length, 2);
});

check("a mark that is created by its constructor is not listed", () => {
  clean();
  equal(new PerformanceMark("m", { startTime: 1 }).startTime, 1);
  equal(performance.getEntries(), []);
  throws("TypeError", () => new PerformanceMark());
  throws("TypeError", () => new PerformanceMeasure("m"));
  throws("TypeError", () => new PerformanceEntry());
  throws("TypeError", () => new Performance());
});

about("PerformanceMeasure");

check("a measure is between marks, times, the time origin and now", () => {
  clean();
  performance.mark("a", { startTime: 10 });
  performance.mark("b", { startTime: 30 });
  performance.mark("a", { startTime: 20 });
  const measured = (...args) => {
    const { startTime, duration, detail } = performance.measure("m", ...args);
    return [startTime, duration, detail];
  };
  equal(measured("a", "b"), [20, 10, null]);
  equal(measured({ start: "a", end: "b", detail: { x: 1 } }), [20, 10, { x: 1 }]);
  equal(measured({ start: 1, end: 5 }), [1, 4, null]);
  equal(measured({ start: 1, duration: 5 }), [1, 5, null]);
  equal(measured({ end: "b", duration: 5 }), [25, 5, null]);
  equal(measured({ end: 7 }), [0, 7, null]);
  equal(measured(undefined, "b"), [0, 30, null]);
  equal(measured({}, "b"), [0, 30, null]);
  const [start, duration] = measured();
  equal([start, duration > 0], [0, true]);
  equal(performance.measure("m", "a").startTime, 20);
  equal(measured({ start: "b", end: "a" }), [30, -10, null]);
});

check("invalid measures are rejected", () => {
  clean();
  performance.mark("a", { startTime: 1 });
  throws("SyntaxError", () => performance.measure("m", "absent"));
  throws("SyntaxError", () => performance.measure("m", "a", "absent"));
  equal(new DOMException("", "SyntaxError").code, 12);
  throws("TypeError", () => performance.measure("m", { start: 1 }, "a"));
  throws("TypeError", () => performance.measure("m", { duration: 1 }));
  throws("TypeError", () => performance.measure("m", { detail: 1 }));
  throws("TypeError", () => performance.measure("m", { start: 1, end: 2, duration: 1 }));
  throws("TypeError", () => performance.measure("m", { start: -1 }));
  throws("TypeError", () => performance.measure());
});

about("Performance");

check("entries are sorted by time, and found by name and type", () => {
  clean();
  performance.mark("b", { startTime: 3 });
  performance.mark("a", { startTime: 1 });
  performance.measure("a", { start: 2, duration: 1 });
  equal(shown(performance.getEntries()), [["a", "mark", 1, 0], ["a", "measure", 2, 1], ["b", "mark", 3, 0]]);
  equal(shown(performance.getEntriesByType("mark")), [["a", "mark", 1, 0], ["b", "mark", 3, 0]]);
  equal(shown(performance.getEntriesByName("a")), [["a", "mark", 1, 0], ["a", "measure", 2, 1]]);
  equal(shown(performance.getEntriesByName("a", "measure")), [["a", "measure", 2, 1]]);
  equal([performance.getEntriesByType("other"), performance.getEntriesByName("z")], [[], []]);
  throws("TypeError", () => performance.getEntriesByType());
  throws("TypeError", () => performance.getEntriesByName());
});

check("entries can be cleared, all or by name", () => {
  clean();
  for (const name of ["a", "b"]) {
    performance.mark(name, { startTime: 1 });
    performance.measure(name, { start: 1, end: 2 });
  }
  performance.clearMarks("a");
  equal(shown(performance.getEntriesByType("mark")), [["b", "mark", 1, 0]]);
  performance.clearMeasures();
  equal(shown(performance.getEntries()), [["b", "mark", 1, 0]]);
  performance.clearMarks();
  equal(performance.getEntries(), []);
});

check("the number of entries is bounded", () => {
  clean();
  for (let i = 0; i < 10_100; i++) performance.mark("m", { startTime: 1 });
  equal(performance.getEntries().length, 10_000);
  equal(performance.mark("more").name, "more");
  clean();
});

about("PerformanceEntry");

check("entries can be converted to JSON", () => {
  equal(new PerformanceMark("m", { startTime: 1 }).toJSON(), { name: "m", entryType: "mark", startTime: 1, duration: 0 });
});

about("Performance");

check("performance is an event target", () => {
  equal([performance instanceof EventTarget, performance instanceof Performance, String(performance)], [true, true, "[object Performance]"]);
  throws("TypeError", () => Performance.prototype.now.call({}));
});
