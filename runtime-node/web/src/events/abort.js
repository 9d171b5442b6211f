// AbortController and AbortSignal (DOM §3).
//
// A signal may depend on other signals (`AbortSignal.any`, the signal of a Request made with a
// signal). Sources hold their dependents weakly, so that a source that lives as long as the Worker
// does not keep every dependent alive. A source holds a dependent strongly while the dependent has
// listeners or algorithms, because only the source can notify the dependent.
//: late, after timers.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeShift, ArrayPrototypeSplice, MathMin, TypeError, WeakRef, WeakRefPrototypeDeref,
  } = internal.primordials;
  const { enforced, expose, isObject, needs, sequence } = internal.webidl;
  const { setTimeout } = internal.timers;

  internal.later("abort", ["AbortController", "AbortSignal"], () => {
    // The maximum delay of a timer, in milliseconds: 24 days.
    const MAX_DELAY = 2 ** 31 - 1;
    // The minimum length of a list of dependents that is swept for collected ones.
    const MIN_SWEPT_LENGTH = 16;
    const { Event, EventTarget, deliver, eventHandler, listeners, onListen } = internal.events();

    const CREATE = { __proto__: null };
    let abort; // (signal, reason)
    let abortReason; // (signal)
    let dependentSignal; // (signals): a signal that is aborted with the first of them
    let isAbortSignal;
    let isAborted; // (signal)
    let onAbort; // (signal, algorithm, isOver)

    const exception = (message, name) => new (internal.exceptions().DOMException)(message, name);

    class AbortSignal extends EventTarget {
      #aborted = false;
      #reason = undefined;
      // A list of {algorithm, isOver}, or null. Each algorithm is called once, in order, before the
      // event is fired.
      #algorithms = null;
      #handler = null;
      // The signals on which this signal depends, or null. A source never has sources itself.
      #sources = null;
      // The dependents: a list of {weak, kept}, where `kept` is the signal itself or null. The list
      // is swept for collected dependents when its length reaches `#sweepAt`.
      #dependents = null;
      #sweepAt = MIN_SWEPT_LENGTH;

      static {
        isAbortSignal = (value) => isObject(value) && #aborted in value;
        isAborted = (signal) => signal.#aborted;
        abortReason = (signal) => signal.#reason;

        // Makes the sources of a signal hold the signal strongly, because it has listeners or
        // algorithms.
        const keep = (signal) => {
          const sources = signal.#sources;
          if (sources === null || signal.#aborted) return;
          for (let i = 0; i < sources.length; i++) {
            const dependents = sources[i].#dependents;
            for (let j = 0; dependents !== null && j < dependents.length; j++) {
              const dependent = dependents[j];
              if (dependent.kept === null && WeakRefPrototypeDeref(dependent.weak) === signal) dependent.kept = signal;
            }
          }
        };

        // Returns whether a signal has listeners or pending algorithms. Drops algorithms that are
        // over.
        const isAwaited = (signal) => {
          const list = signal.#algorithms;
          let left = 0;
          for (let i = 0; list !== null && i < list.length; i++) {
            if (list[i].isOver === null || !list[i].isOver()) list[left++] = list[i];
          }
          if (list !== null) list.length = left;
          return left > 0 || listeners(signal, "abort") > 0;
        };

        const addDependent = (source, signal) => {
          const list = (source.#dependents ??= []);
          if (list.length >= source.#sweepAt) {
            let left = 0;
            for (let i = 0; i < list.length; i++) {
              if (list[i].kept !== null && !isAwaited(list[i].kept)) list[i].kept = null;
              if (list[i].kept !== null || WeakRefPrototypeDeref(list[i].weak) !== undefined) list[left++] = list[i];
            }
            list.length = left;
            source.#sweepAt = 2 * left + MIN_SWEPT_LENGTH;
          }
          ArrayPrototypePush(list, { weak: new WeakRef(signal), kept: null });
        };

        dependentSignal = (signals) => {
          const signal = new AbortSignal(CREATE);
          for (let i = 0; i < signals.length; i++) {
            if (!signals[i].#aborted) continue;
            signal.#aborted = true;
            signal.#reason = signals[i].#reason;
            return signal;
          }
          const sources = (signal.#sources = []);
          const add = (source) => {
            for (let i = 0; i < sources.length; i++) if (sources[i] === source) return;
            ArrayPrototypePush(sources, source);
            addDependent(source, signal);
          };
          for (let i = 0; i < signals.length; i++) {
            const further = signals[i].#sources;
            if (further === null) add(signals[i]);
            else for (let j = 0; j < further.length; j++) add(further[j]);
          }
          onListen(signal, () => keep(signal));
          return signal;
        };

        // Calls `algorithm(reason)` when the signal is aborted. Returns a function that removes the
        // algorithm. If there is an `isOver`, the algorithm may be dropped once `isOver()` returns
        // true.
        onAbort = (signal, algorithm, isOver = null) => {
          const list = (signal.#algorithms ??= []);
          const entry = { algorithm, isOver };
          ArrayPrototypePush(list, entry);
          keep(signal);
          return () => {
            for (let i = 0; i < list.length; i++) {
              if (list[i] === entry) {
                ArrayPrototypeSplice(list, i, 1);
                return;
              }
            }
          };
        };

        const notify = (signal) => {
          const list = signal.#algorithms;
          signal.#algorithms = null;
          // An algorithm may remove other algorithms from the list.
          while (list !== null && list.length > 0) ArrayPrototypeShift(list).algorithm(signal.#reason);
          deliver(signal, new Event("abort"));
        };

        abort = (signal, reason) => {
          if (signal.#aborted) return;
          signal.#aborted = true;
          signal.#reason = reason === undefined ? exception("The operation was aborted", "AbortError") : reason;
          // All dependents are aborted before any of them is notified.
          const newlyAborted = [];
          const dependents = signal.#dependents;
          signal.#dependents = null;
          for (let i = 0; dependents !== null && i < dependents.length; i++) {
            const dependent = WeakRefPrototypeDeref(dependents[i].weak);
            if (dependent === undefined || dependent.#aborted) continue;
            dependent.#aborted = true;
            dependent.#reason = signal.#reason;
            dependent.#sources = null;
            ArrayPrototypePush(newlyAborted, dependent);
          }
          notify(signal);
          for (let i = 0; i < newlyAborted.length; i++) notify(newlyAborted[i]);
        };

        eventHandler(AbortSignal, "abort", {
          get: (signal) => signal.#handler,
          set: (signal, handler) => {
            signal.#handler = handler;
          },
        });
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
        setTimeout(() => abort(signal, exception("The operation timed out", "TimeoutError")), MathMin(delay, MAX_DELAY));
        return signal;
      }

      static any(signals) {
        needs(arguments.length, 1, "AbortSignal.any");
        return dependentSignal(sequence(signals, (signal) => {
          if (!isAbortSignal(signal)) throw new TypeError("AbortSignal.any: not an AbortSignal");
          return signal;
        }, "AbortSignal.any"));
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
    expose(AbortSignal);
    internal.describe("AbortSignal", isAbortSignal, AbortSignal, ["aborted", "reason"]);

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
