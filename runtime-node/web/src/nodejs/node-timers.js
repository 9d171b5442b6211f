// node:timers and node:timers/promises. With the flag `nodejs_compat`, the global setTimeout and
// setInterval are those of node:timers.
//: module
(function (internal) {
  "use strict";

  const { Promise, ReflectApply, SymbolDispose, SymbolToPrimitive } = internal.primordials;
  const { clearInterval, clearTimeout, setInterval, setTimeout } = internal.platform;

  const run = (callback, args) => {
    try {
      ReflectApply(callback, undefined, args);
    } catch (error) {
      internal.reportError(error);
    }
  };

  internal.define("timers", () => {
    const { abortError, needFunction, needSignal } = internal.node;

    class Immediate {
      #timer;
      constructor(timer) {
        this.#timer = timer;
      }
      // A timer never keeps an invocation alive, so `ref` and `unref` have no effect.
      ref() {
        return this;
      }
      unref() {
        return this;
      }
      hasRef() {
        return false;
      }
      static clear(immediate) {
        if (immediate !== null && typeof immediate === "object" && #timer in immediate) clearTimeout(immediate.#timer);
      }
    }
    const { clear } = Immediate;
    delete /** @type {any} */ (Immediate).clear;

    // A timer as an object, which converts to its number.
    class Timeout {
      #number;
      #start;
      #end;
      constructor(start, end) {
        this.#start = start;
        this.#end = end;
        this.#number = start();
      }
      ref() {
        return this;
      }
      unref() {
        return this;
      }
      hasRef() {
        return false;
      }
      // Starts the delay again, even if the timer has fired.
      refresh() {
        this.#end(this.#number);
        this.#number = this.#start();
        return this;
      }
      close() {
        this.#end(this.#number);
        return this;
      }
      [SymbolToPrimitive]() {
        return this.#number;
      }
      [SymbolDispose]() {
        this.close();
      }
    }
    const setTimeoutObject = (callback, delay = undefined, ...args) => {
      needFunction(callback, "callback");
      return new Timeout(() => setTimeout(callback, delay, ...args), clearTimeout);
    };
    const setIntervalObject = (callback, delay = undefined, ...args) => {
      needFunction(callback, "callback");
      return new Timeout(() => setInterval(callback, delay, ...args), clearInterval);
    };

    const setImmediate = (callback, ...args) => {
      needFunction(callback, "callback");
      return new Immediate(setTimeout(() => run(callback, args), 0));
    };
    const clearImmediate = (immediate) => clear(immediate);

    // Returns a promise of `value`. `begin(resolve)` starts the operation and returns a timer; if
    // the signal aborts, `end(timer)` cancels the operation.
    const promiseFor = (value, options, begin, end) => {
      const signal = options?.signal;
      return new Promise((resolve, reject) => {
        if (signal === undefined) {
          begin(() => resolve(value));
          return;
        }
        needSignal(signal, "options.signal");
        const { isAborted, onAbort } = internal.abort();
        if (isAborted(signal)) {
          reject(abortError(signal));
          return;
        }
        const begun = begin(() => {
          forget();
          resolve(value);
        });
        const forget = onAbort(signal, () => {
          end(begun);
          reject(abortError(signal));
        });
      });
    };

    const promises = {
      setTimeout(delay, value, options) {
        return promiseFor(value, options, (resolve) => setTimeout(resolve, delay), clearTimeout);
      },
      setImmediate(value, options) {
        return promiseFor(value, options, (resolve) => setTimeout(resolve, 0), clearTimeout);
      },
      async *setInterval(delay, value, options) {
        for (;;) yield await promises.setTimeout(delay, value, options);
      },
      scheduler: {
        wait: (delay, options) => promises.setTimeout(delay, undefined, options),
        yield: () => promises.setImmediate(),
      },
    };

    return {
      clearImmediate, clearInterval, clearTimeout, promises, setImmediate,
      setInterval: setIntervalObject,
      setTimeout: setTimeoutObject,
    };
  });
})
