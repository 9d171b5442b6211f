// The scheduled event, for a module's `scheduled(controller, env, ctx)` and for listeners of the
// global scope.
//: late, after fetchevent.js
(function (internal) {
  "use strict";

  const { PromisePrototypeThen, PromiseResolve, PromiseWithResolvers, TypeError } = internal.primordials;
  const { dictionary, expose, isObject, needs, DOMString } = internal.webidl;

  internal.later("scheduled", ["ScheduledController", "ScheduledEvent"], () => {
    const { ExtendableEvent, setWaitUntil } = internal.fetchEvents();
    const { deliverToScope, scopeListeners } = internal.events();
    const KEY = { __proto__: null };
    let isController;

    class ScheduledController {
      #cron;
      #time;

      static {
        isController = (value) => isObject(value) && #cron in value;
      }

      constructor(key, cron, time) {
        if (key !== KEY) throw new TypeError("Illegal constructor");
        this.#cron = cron;
        this.#time = time;
      }
      get cron() {
        return this.#cron;
      }
      get scheduledTime() {
        return this.#time;
      }
      get type() {
        this.#cron; // a brand check
        return "scheduled";
      }
      // Does nothing: a failed event is never repeated.
      noRetry() {
        this.#cron; // a brand check
      }
    }
    expose(ScheduledController);
    internal.describe("ScheduledController", isController, ScheduledController, ["cron", "scheduledTime", "type"]);

    class ScheduledEvent extends ExtendableEvent {
      #cron;
      #time;

      constructor(type, options) {
        needs(arguments.length, 2, "ScheduledEvent");
        super(type, options);
        const { cron, scheduledTime } = dictionary(options, "ScheduledEvent");
        this.#cron = cron === undefined ? "" : DOMString(cron);
        this.#time = +scheduledTime;
      }
      get cron() {
        return this.#cron;
      }
      get scheduledTime() {
        return this.#time;
      }
      noRetry() {
        this.#cron; // a brand check
      }
    }
    expose(ScheduledEvent);

    // Combines the promises of the handler and of `waitUntil` into one promise, which settles when
    // all of them have settled, and is rejected with the first failure.
    function outcome() {
      const { promise, resolve, reject } = PromiseWithResolvers();
      let left = 0;
      let failed = false;
      let error;
      const settled = () => {
        if (--left > 0) return;
        if (failed) reject(error);
        else resolve();
      };
      const fail = (reason) => {
        if (failed) return internal.reportError(reason);
        failed = true;
        error = reason;
      };
      const add = (value) => {
        // PromiseResolve precedes the count, because its lookup of `constructor` may throw.
        const kept = PromiseResolve(value);
        left++;
        PromisePrototypeThen(kept, settled, (reason) => {
          fail(reason);
          settled();
        });
      };
      return { __proto__: null, add, fail, promise };
    }

    // Calls `handle(controller, waitUntil)`, or the listeners if `handle` is null. Returns a
    // promise of the outcome.
    const dispatch = async (handle, cron, time) => {
      const { add, fail, promise } = outcome();
      // Keeps the outcome pending until the handler has returned.
      const { promise: returned, resolve } = PromiseWithResolvers();
      add(returned);
      try {
        if (handle !== null) {
          add(handle(new ScheduledController(KEY, cron, time), add));
        } else if (scopeListeners("scheduled") > 0) {
          const event = new ScheduledEvent("scheduled", { __proto__: null, cron, scheduledTime: time });
          setWaitUntil(event, add);
          deliverToScope(event);
        } else {
          throw new TypeError(
            "The entrypoint has no scheduled handler: export default { async scheduled(controller, env, ctx) { … } }, " +
              'or addEventListener("scheduled", …)',
          );
        }
      } catch (error) {
        fail(error);
      }
      resolve();
      return await promise;
    };
    return { __proto__: null, ScheduledController, ScheduledEvent, dispatch };
  });
})
