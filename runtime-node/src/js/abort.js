// AbortController and AbortSignal (DOM §3).
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, ArrayPrototypeShift, ArrayPrototypeSplice, MathMin, TypeError } = internal.primordials;
  const { enforced, expose, isObject, needs } = internal.webidl;
  const { setTimeout } = globalThis;

  internal.abort = internal.later(["AbortController", "AbortSignal"], () => {
    // What a timer can wait for: 24 days.
    const LONGEST = 2 ** 31 - 1;
    const { Event, EventTarget, deliver, eventHandler } = internal.events();

    const CREATE = { __proto__: null };
    let abort; // (signal, reason)
    let abortReason; // (signal)
    let isAbortSignal;
    let isAborted; // (signal)
    let onAbort; // (signal, algorithm)
    let setHandler;
    let getHandler;

    class AbortSignal extends EventTarget {
      #aborted = false;
      #reason = undefined;
      // Called once, in order, before the event is fired; null when nobody waits.
      #algorithms = null;
      #handler = null;

      static {
        isAbortSignal = (value) => isObject(value) && #aborted in value;
        isAborted = (signal) => signal.#aborted;
        abortReason = (signal) => signal.#reason;
        // Calls `algorithm(reason)` when the signal is aborted; returns what takes it back.
        onAbort = (signal, algorithm) => {
          const list = (signal.#algorithms ??= []);
          ArrayPrototypePush(list, algorithm);
          return () => {
            for (let i = 0; i < list.length; i++) {
              if (list[i] === algorithm) {
                ArrayPrototypeSplice(list, i, 1);
                return;
              }
            }
          };
        };
        abort = (signal, reason) => {
          if (signal.#aborted) return;
          signal.#aborted = true;
          signal.#reason = reason === undefined ? new (internal.exceptions().DOMException)("The operation was aborted", "AbortError") : reason;
          const list = signal.#algorithms;
          signal.#algorithms = null;
          // What is called may take others back.
          while (list !== null && list.length > 0) ArrayPrototypeShift(list)(signal.#reason);
          deliver(signal, new Event("abort"));
        };
        getHandler = (signal) => signal.#handler;
        setHandler = (signal, handler) => {
          signal.#handler = handler;
        };
      }

      constructor(key = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use an AbortController");
        super();
      }

      static abort(reason = undefined) {
        const signal = new AbortSignal(CREATE);
        abort(signal, reason);
        return signal;
      }

      static timeout(milliseconds) {
        needs(arguments.length, 1, "AbortSignal.timeout");
        const delay = enforced(milliseconds, 2 ** 53 - 1, "AbortSignal.timeout");
        const signal = new AbortSignal(CREATE);
        setTimeout(() => {
          abort(signal, new (internal.exceptions().DOMException)("The operation timed out", "TimeoutError"));
        }, MathMin(delay, LONGEST));
        return signal;
      }

      static any(signals) {
        needs(arguments.length, 1, "AbortSignal.any");
        if (!isObject(signals)) throw new TypeError("AbortSignal.any: the argument is not a sequence");
        const sources = [];
        for (const signal of signals) {
          if (!isAbortSignal(signal)) throw new TypeError("AbortSignal.any: not an AbortSignal");
          sources[sources.length] = signal;
        }
        return dependentSignal(sources);
      }

      get aborted() {
        return this.#aborted;
      }

      get reason() {
        return this.#reason;
      }

      throwIfAborted() {
        if (this.#aborted) throw this.#reason;
      }
    }
    eventHandler(AbortSignal, "abort", {
      get: (signal) => getHandler(signal),
      set: (signal, handler) => setHandler(signal, handler),
    });
    expose(AbortSignal);
    internal.describe("AbortSignal", isAbortSignal, AbortSignal, ["aborted", "reason"]);

    // A signal that is aborted with the first of `sources`.
    const dependentSignal = (sources) => {
      const signal = new AbortSignal(CREATE);
      for (let i = 0; i < sources.length; i++) {
        if (isAborted(sources[i])) {
          abort(signal, abortReason(sources[i]));
          return signal;
        }
      }
      const forget = [];
      for (let i = 0; i < sources.length; i++) {
        forget[i] = onAbort(sources[i], (reason) => {
          for (let j = 0; j < forget.length; j++) forget[j]();
          abort(signal, reason);
        });
      }
      return signal;
    };

    class AbortController {
      #signal = new AbortSignal(CREATE);

      get signal() {
        return this.#signal;
      }

      abort(reason = undefined) {
        abort(this.#signal, reason);
      }
    }
    expose(AbortController);

    const newSignal = () => new AbortSignal(CREATE);
    return { AbortController, AbortSignal, abort, abortReason, dependentSignal, isAbortSignal, isAborted, newSignal, onAbort };
  });
})
