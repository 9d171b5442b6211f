// Timers (HTML §8.6). A timer is an operation of the invocation that set it: native code keeps its
// callback and cancels it when the invocation ends.
//: after errors.js
(function (internal) {
  "use strict";

  const { RangeError, ReflectApply, TypeError } = internal.primordials;
  const { longLong } = internal.webidl;
  const { ops } = internal;

  // Converts to a `long`, as Web IDL does.
  const long = (value) => value | 0;

  // Calls `callback`, and reports its exception as uncaught.
  function run(callback, args) {
    try {
      ReflectApply(callback, globalThis, args);
    } catch (error) {
      internal.reportError(error);
    }
  }

  function set(name, callback, delay, args, repeat) {
    if (typeof callback !== "function") throw new TypeError(`${name}: the callback must be a function`);
    const wait = long(delay);
    const id = ops.timerStart(() => run(callback, args), wait > 0 ? wait : 0, repeat);
    if (id === 0) throw new RangeError(`${name}: the invocation has ended, or has too many operations in flight`);
    return id;
  }

  // The ids of an isolate's operations may exceed a `long`.
  function clear(id) {
    const number = longLong(id);
    if (number > 0) ops.timerClear(number);
  }

  const timers = {
    setTimeout(callback, delay = undefined, ...args) {
      return set("setTimeout", callback, delay, args, false);
    },
    setInterval(callback, delay = undefined, ...args) {
      return set("setInterval", callback, delay, args, true);
    },
    clearTimeout(id = 0) {
      clear(id);
    },
    clearInterval(id = 0) {
      clear(id);
    },
  };
  internal.globals(timers);
  // The original functions, which changes to the global object do not affect.
  internal.timers = timers;
})
