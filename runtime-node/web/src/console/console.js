// console (Console standard): formats, groups, counts and times, and writes each line to the log at
// its level.
//: after inspect.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ArrayPrototypePush, DateNow, ErrorCaptureStackTrace, Map, MapPrototypeDelete, MapPrototypeGet,
    MapPrototypeGetSize, MapPrototypeHas, MapPrototypeSet, MathMax, NumberPrototypeToFixed,
    ObjectDefineProperty, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeIncludes,
    StringPrototypeIndexOf, StringPrototypePadEnd, StringPrototypeRepeat, StringPrototypeSlice, SymbolToStringTag,
    parseFloat, parseInt,
  } = internal.primordials;
  const { inspect, inspectWith } = internal;
  const { isObject } = internal.webidl;

  // The maximum numbers of labels of `count` and of `time`, and of spaces of indentation.
  const MAX_LABELS = 1000;
  const MAX_INDENT = 32;
  // The limits of `inspect`: the number of items of a list, and of columns of a line.
  const ITEMS = 100, WIDTH = 76;

  let indent = "";
  const counts = new Map();
  const timers = new Map();

  // A string that is longer is not read: it may have V8's maximum length, and reading it cannot be
  // terminated.
  const MAX_TEXT = 2 ** 25;

  const text = (value) => {
    if (typeof value !== "string") return inspect(value);
    return value.length > MAX_TEXT ? `[a string of ${value.length} characters]` : value;
  };

  // `%d` and similar specifiers show NaN for an object, because they never run a Worker's
  // `valueOf`.
  function formatted(specifier, value) {
    switch (specifier) {
      case "s": return typeof value === "bigint" ? inspect(value) : text(value);
      case "d": case "i": case "f":
        if (typeof value === "bigint") return inspect(value);
        if (typeof value === "symbol" || isObject(value)) return "NaN";
        return inspect(specifier === "f" ? parseFloat(value) : parseInt(value, 10));
      case "j": case "o": case "O": return inspect(value);
      default: return ""; // %c: styles are not supported
    }
  }

  // Inspects a value to the depth that the caller of `dir` has requested.
  function inspectTo(value, depth) {
    try {
      return inspectWith(value, { __proto__: null, depth, items: ITEMS, breakLength: WIDTH, custom: null });
    } catch {
      return inspect(value);
    }
  }

  function format(values) {
    if (values.length === 0) return "";
    let out = "";
    let next = 0;
    const first = typeof values[0] === "string" ? text(values[0]) : values[0];
    if (typeof first === "string") {
      next = 1;
      if (values.length === 1 || !StringPrototypeIncludes(first, "%")) {
        out = first;
      } else {
        let from = 0;
        for (let i = 0; i < first.length - 1; i++) {
          if (first[i] !== "%") continue;
          const specifier = first[i + 1];
          if (specifier === "%") {
            out += StringPrototypeSlice(first, from, i + 1);
          } else if (next < values.length && StringPrototypeIncludes("sdifjoOc", specifier)) {
            out += StringPrototypeSlice(first, from, i) + formatted(specifier, values[next++]);
          } else {
            continue;
          }
          from = i + 2;
          i++;
        }
        out += StringPrototypeSlice(first, from);
      }
    } else {
      out = text(first);
      next = 1;
    }
    for (; next < values.length; next++) out += ` ${text(values[next])}`;
    return out;
  }

  function write(level, message) {
    let line = message;
    if (indent !== "") {
      line = indent;
      for (let i = 0; i < message.length; i++) line += message[i] === "\n" ? `\n${indent}` : message[i];
    }
    internal.ops.log(level, line);
  }

  const labeled = (value) => (value === undefined ? "default" : text(typeof value === "string" ? value : `${value}`));

  function elapsed(label) {
    const milliseconds = DateNow() - MapPrototypeGet(timers, label);
    return milliseconds >= 1000
      ? `${NumberPrototypeToFixed(milliseconds / 1000, 3)}s`
      : `${NumberPrototypeToFixed(milliseconds, 3)}ms`;
  }

  // Returns the frames of the call stack below the function `below`.
  function framesBelow(below) {
    const here = {};
    ErrorCaptureStackTrace(here, below);
    const stack = internal.stackOf(here);
    const frames = StringPrototypeIndexOf(stack, "\n");
    return frames < 0 ? "" : StringPrototypeSlice(stack, frames);
  }

  // ---- Tables

  // Returns the enumerable properties of an object as [name, value, …]; null for a primitive or a
  // proxy. Runs no getter: the value of an accessor is undefined.
  function fields(value) {
    if (!isObject(value) || internal.ops.kindOf(value) === "proxy") return null;
    const flat = [];
    const keys = ReflectOwnKeys(value);
    for (let i = 0; i < keys.length; i++) {
      if (typeof keys[i] !== "string") continue;
      const descriptor = ReflectGetOwnPropertyDescriptor(value, keys[i]);
      if (descriptor === undefined || !descriptor.enumerable) continue;
      ArrayPrototypePush(flat, keys[i]);
      ArrayPrototypePush(flat, descriptor.value);
    }
    return flat;
  }

  function table(data, only) {
    const rows = fields(data);
    if (rows === null) return null;
    const INDEX = "(index)", VALUES = "Values";
    const columns = [INDEX];
    const cells = [];
    let hasValues = false;
    // Returns the index of the column with this name, and adds the column if it is new.
    const columnOf = (name) => {
      for (let i = 1; i < columns.length; i++) if (columns[i] === name) return i;
      ArrayPrototypePush(columns, name);
      return columns.length - 1;
    };
    if (only !== undefined) for (let i = 0; i < only.length; i++) columnOf(text(only[i]));
    // The values of the rows that have no cells.
    const values = [];
    for (let i = 0; i < rows.length; i += 2) {
      const row = { __proto__: null, 0: rows[i] };
      const inner = fields(rows[i + 1]);
      if (inner === null) {
        values[i / 2] = inspect(rows[i + 1]);
        hasValues = true;
      } else {
        for (let j = 0; j < inner.length; j += 2) {
          if (only !== undefined && !includes(only, inner[j])) continue;
          row[columnOf(inner[j])] = inspect(inner[j + 1]);
        }
      }
      ArrayPrototypePush(cells, row);
    }
    if (hasValues) {
      ArrayPrototypePush(columns, VALUES);
      for (let i = 0; i < cells.length; i++) if (values[i] !== undefined) cells[i][columns.length - 1] = values[i];
    }
    return draw(columns, cells);
  }

  function includes(list, item) {
    for (let i = 0; i < list.length; i++) if (list[i] === item) return true;
    return false;
  }

  function draw(columns, cells) {
    const widths = [];
    for (let c = 0; c < columns.length; c++) {
      widths[c] = columns[c].length;
      for (let r = 0; r < cells.length; r++) widths[c] = MathMax(widths[c], cells[r][c]?.length ?? 0);
    }
    const rule = (left, middle, right) => {
      let line = left;
      for (let c = 0; c < widths.length; c++) {
        line += StringPrototypeRepeat("─", widths[c] + 2) + (c === widths.length - 1 ? right : middle);
      }
      return line;
    };
    const line = (row) => {
      let out = "│";
      for (let c = 0; c < widths.length; c++) out += ` ${StringPrototypePadEnd(row[c] ?? "", widths[c])} │`;
      return out;
    };
    let out = `${rule("┌", "┬", "┐")}\n${line(columns)}\n${rule("├", "┼", "┤")}`;
    for (let r = 0; r < cells.length; r++) out += `\n${line(cells[r])}`;
    return `${out}\n${rule("└", "┴", "┘")}`;
  }

  // ---- The object

  const { trace } = {
    trace(...data) {
      const message = format(data);
      write("debug", `Trace${message === "" ? "" : `: ${message}`}${framesBelow(trace)}`);
    },
  };

  const console = {
    // The prototype of the namespace is an empty object (Console §1).
    __proto__: {},
    debug: (...data) => write("debug", format(data)),
    log: (...data) => write("info", format(data)),
    info: (...data) => write("info", format(data)),
    warn: (...data) => write("warn", format(data)),
    error: (...data) => write("error", format(data)),

    assert(condition = false, ...data) {
      if (condition) return;
      if (typeof data[0] === "string") data[0] = `Assertion failed: ${data[0]}`;
      else if (data.length === 0) data[0] = "Assertion failed";
      else return write("error", `Assertion failed: ${format(data)}`);
      write("error", format(data));
    },

    trace,

    dir(...data) {
      const { 0: item, 1: options } = data;
      const depth = isObject(options) ? options.depth : undefined;
      write("info", depth === undefined ? inspect(item) : inspectTo(item, depth === null ? Infinity : +depth));
    },
    dirxml: (...data) => write("info", format(data)),

    table(...items) {
      const { 0: data, 1: properties } = items;
      const drawn = table(data, ArrayIsArray(properties) ? properties : undefined);
      write("info", drawn === null ? text(data) : drawn);
    },

    count(label = undefined) {
      const name = labeled(label);
      const count = (MapPrototypeGet(counts, name) ?? 0) + 1;
      if (count > 1 || MapPrototypeGetSize(counts) < MAX_LABELS) MapPrototypeSet(counts, name, count);
      write("info", `${name}: ${count}`);
    },
    countReset(label = undefined) {
      const name = labeled(label);
      if (!MapPrototypeDelete(counts, name)) write("warn", `Count for '${name}' does not exist`);
    },

    time(label = undefined) {
      const name = labeled(label);
      if (MapPrototypeHas(timers, name)) return write("warn", `Timer '${name}' already exists`);
      if (MapPrototypeGetSize(timers) < MAX_LABELS) {
        MapPrototypeSet(timers, name, DateNow());
      }
    },
    timeLog(label = undefined, ...data) {
      const name = labeled(label);
      if (!MapPrototypeHas(timers, name)) return write("warn", `Timer '${name}' does not exist`);
      const rest = format(data);
      write("info", `${name}: ${elapsed(name)}${rest === "" ? "" : ` ${rest}`}`);
    },
    timeEnd(label = undefined) {
      const name = labeled(label);
      if (!MapPrototypeHas(timers, name)) return write("warn", `Timer '${name}' does not exist`);
      const message = `${name}: ${elapsed(name)}`;
      MapPrototypeDelete(timers, name);
      write("info", message);
    },

    group(...data) {
      if (data.length > 0) write("info", format(data));
      if (indent.length < MAX_INDENT) indent += "  ";
    },
    groupCollapsed(...data) {
      ReflectApply(console.group, undefined, data);
    },
    groupEnd() {
      indent = StringPrototypeSlice(indent, 2);
    },
    clear() {
      indent = "";
    },
  };
  ObjectDefineProperty(console, SymbolToStringTag, { __proto__: null, value: "console", configurable: true });

  // Native code defines `console` on the global object: V8 creates a console for each new context,
  // and crashes the process if the global object already has one.
  internal.console = console;
})
