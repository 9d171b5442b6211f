// Timers (HTML §8.6). A timer is an operation of the invocation that set it: native code keeps its callback and ends
// it with the invocation.
(function (internal) {
  "use strict";

  const { MathTrunc, Number, RangeError, ReflectApply, TypeError } = internal.primordials;
  const { ops } = internal;

  // The longest delay, as every browser has it: what does not fit into 31 bits becomes none.
  const LONGEST = 2 ** 31 - 1;

  function milliseconds(delay) {
    const number = delay === undefined ? 0 : MathTrunc(Number(delay));
    return number > 0 && number <= LONGEST ? number : 0;
  }

  // Runs `callback` so that an exception goes where uncaught ones go.
  function run(callback, args) {
    try {
      ReflectApply(callback, undefined, args);
    } catch (error) {
      internal.reportError(error);
    }
  }

  function set(name, callback, delay, args, repeat) {
    if (typeof callback !== "function") throw new TypeError(`${name}: the callback must be a function`);
    const id = ops.timerStart(() => run(callback, args), milliseconds(delay), repeat);
    if (id === 0) throw new RangeError(`${name}: the invocation has ended, or has too much under way`);
    return id;
  }

  function clear(id) {
    const number = Number(id);
    if (number > 0) ops.timerClear(number);
  }

  internal.globals({
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
  });
})
