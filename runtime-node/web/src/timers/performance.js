// performance (High Resolution Time §8, Performance Timeline §4, User Timing §3). The clock is
// coarse and does not advance within a turn.
//: late, after clone.js events.js
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, ArrayPrototypeSort, DateNow, TypeError } = internal.primordials;
  const { DOMString, dictionary, expose, finite, isObject, needs } = internal.webidl;

  internal.later("performance", [
    "Performance", "PerformanceEntry", "PerformanceMark", "PerformanceMeasure", "performance",
  ], () => {
    // The capacity of the timeline. An entry beyond this number is returned to the caller but not
    // kept.
    const MAX_ENTRIES = 10_000;
    const CREATE = { __proto__: null };
    const { EventTarget } = internal.events();
    const { send } = internal.clones();

    // The entries in order of creation.
    let entries = [];
    const keep = (entry) => {
      if (entries.length < MAX_ENTRIES) ArrayPrototypePush(entries, entry);
      return entry;
    };

    const copyOf = (detail) => (detail === undefined || detail === null ? null : send(detail, []).value);

    // ---- Entries

    let isEntry;
    let nameOf;
    let typeOf;
    let startOf;

    class PerformanceEntry {
      #name;
      #type;
      #start;
      #duration;

      static {
        isEntry = (value) => isObject(value) && #name in value;
        nameOf = (entry) => entry.#name;
        typeOf = (entry) => entry.#type;
        startOf = (entry) => entry.#start;
      }

      constructor(key = undefined, name = "", type = "", start = 0, duration = 0) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use performance.mark or performance.measure");
        this.#name = name;
        this.#type = type;
        this.#start = start;
        this.#duration = duration;
      }

      get name() {
        return this.#name;
      }
      get entryType() {
        return this.#type;
      }
      get startTime() {
        return this.#start;
      }
      get duration() {
        return this.#duration;
      }
      toJSON() {
        return { name: this.#name, entryType: this.#type, startTime: this.#start, duration: this.#duration };
      }
    }
    expose(PerformanceEntry);

    class PerformanceMark extends PerformanceEntry {
      #detail;

      constructor(markName, markOptions = undefined) {
        needs(arguments.length, 1, "PerformanceMark");
        const name = DOMString(markName);
        const { detail, startTime } = dictionary(markOptions, "PerformanceMark");
        const start = startTime === undefined ? DateNow() : finite(startTime, "PerformanceMark: startTime");
        if (start < 0) throw new TypeError("PerformanceMark: startTime is negative");
        super(CREATE, name, "mark", start, 0);
        this.#detail = copyOf(detail);
      }

      get detail() {
        return this.#detail;
      }
    }
    expose(PerformanceMark);

    class PerformanceMeasure extends PerformanceEntry {
      #detail;

      constructor(key = undefined, name = "", start = 0, duration = 0, detail = null) {
        super(key, name, "measure", start, duration);
        this.#detail = detail;
      }

      get detail() {
        return this.#detail;
      }
    }
    expose(PerformanceMeasure);
    internal.describe("PerformanceEntry", isEntry, PerformanceEntry, ["name", "entryType", "startTime", "duration"]);

    // ---- The timeline

    // Returns the start time of the mark with this name that was created last. A number is a time
    // itself.
    function timeOf(mark) {
      if (typeof mark === "number") {
        if (finite(mark, "performance.measure") < 0) throw new TypeError("performance.measure: a time is negative");
        return mark;
      }
      const name = DOMString(mark);
      for (let i = entries.length - 1; i >= 0; i--) {
        if (typeOf(entries[i]) === "mark" && nameOf(entries[i]) === name) return startOf(entries[i]);
      }
      throw new (internal.exceptions().DOMException)(`performance.measure: there is no mark '${name}'`, "SyntaxError");
    }

    const chronological = (filter) => {
      const list = [];
      for (let i = 0; i < entries.length; i++) if (filter(entries[i])) ArrayPrototypePush(list, entries[i]);
      return ArrayPrototypeSort(list, (a, b) => startOf(a) - startOf(b));
    };
    const clear = (type, name) => {
      const kept = [];
      for (let i = 0; i < entries.length; i++) {
        const isCleared = typeOf(entries[i]) === type && (name === undefined || nameOf(entries[i]) === name);
        if (!isCleared) ArrayPrototypePush(kept, entries[i]);
      }
      entries = kept;
    };

    // Converts an argument: the name of a mark, or a time.
    const markOrTime = (value) => (typeof value === "number" ? value : DOMString(value));

    function measure(measureName, startOrOptions, endMark) {
      const name = DOMString(measureName);
      if (startOrOptions === undefined || startOrOptions === null || isObject(startOrOptions)) {
        const bag = dictionary(startOrOptions, "performance.measure");
        const { detail } = bag;
        let { duration, end, start } = bag;
        if (duration !== undefined) duration = finite(duration, "performance.measure: duration");
        if (end !== undefined) end = markOrTime(end);
        if (start !== undefined) start = markOrTime(start);
        const given = start !== undefined || end !== undefined || duration !== undefined || detail !== undefined;
        if (given) {
          if (endMark !== undefined) throw new TypeError("performance.measure: an end mark cannot be given with options");
          if (start === undefined && end === undefined) throw new TypeError("performance.measure: the options need a start or an end");
          if (start !== undefined && end !== undefined && duration !== undefined) {
            throw new TypeError("performance.measure: a duration cannot be given with both a start and an end");
          }
        }
        const to = endMark !== undefined ? timeOf(DOMString(endMark))
          : end !== undefined ? timeOf(end)
          : start !== undefined && duration !== undefined ? timeOf(start) + timeOf(duration)
          : DateNow();
        const from = start !== undefined ? timeOf(start)
          : duration !== undefined && end !== undefined ? timeOf(end) - timeOf(duration)
          : 0;
        return new PerformanceMeasure(CREATE, name, from, to - from, copyOf(detail));
      }
      const start = DOMString(startOrOptions);
      const to = endMark !== undefined ? timeOf(DOMString(endMark)) : DateNow();
      const from = timeOf(start);
      return new PerformanceMeasure(CREATE, name, from, to - from, null);
    }

    class Performance extends EventTarget {
      #brand = true;

      constructor(key = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use performance");
        super();
      }

      // The origin is the Unix epoch, so that the clock does not reveal when the isolate was
      // created.
      get timeOrigin() {
        this.#brand;
        return 0;
      }
      now() {
        this.#brand;
        return DateNow();
      }
      toJSON() {
        this.#brand;
        return { timeOrigin: 0 };
      }

      mark(markName, markOptions = undefined) {
        this.#brand;
        needs(arguments.length, 1, "performance.mark");
        return keep(new PerformanceMark(markName, markOptions));
      }
      measure(measureName, startOrMeasureOptions = undefined, endMark = undefined) {
        this.#brand;
        needs(arguments.length, 1, "performance.measure");
        return keep(measure(measureName, startOrMeasureOptions, endMark));
      }
      clearMarks(markName = undefined) {
        this.#brand;
        clear("mark", markName === undefined ? undefined : DOMString(markName));
      }
      clearMeasures(measureName = undefined) {
        this.#brand;
        clear("measure", measureName === undefined ? undefined : DOMString(measureName));
      }
      getEntries() {
        this.#brand;
        return chronological(() => true);
      }
      getEntriesByType(type) {
        this.#brand;
        needs(arguments.length, 1, "performance.getEntriesByType");
        const wanted = DOMString(type);
        return chronological((entry) => typeOf(entry) === wanted);
      }
      getEntriesByName(name, type = undefined) {
        this.#brand;
        needs(arguments.length, 1, "performance.getEntriesByName");
        const wanted = DOMString(name);
        const kind = type === undefined ? null : DOMString(type);
        return chronological((entry) => nameOf(entry) === wanted && (kind === null || typeOf(entry) === kind));
      }
    }
    expose(Performance);
    return { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, performance: new Performance(CREATE) };
  });
})
