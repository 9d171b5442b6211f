// node:diagnostics_channel: named channels on which libraries publish diagnostic messages to
// subscribers.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayPrototypeIndexOf, ArrayPrototypePush, ArrayPrototypeSlice, ArrayPrototypeSplice, Map, MapPrototypeDelete,
    MapPrototypeForEach, MapPrototypeGet, MapPrototypeGetSize, MapPrototypeSet, ReflectApply,
  } = internal.primordials;

  internal.define("diagnostics_channel", () => {
    const { invalid, needFunction } = internal.node;
    const channels = new Map();

    class Channel {
      // Each change replaces the list, so that a publication in progress iterates over an unchanged
      // list.
      #subscribers = [];
      #stores = new Map();

      constructor(name) {
        this.name = name;
      }

      get hasSubscribers() {
        return this.#subscribers.length > 0 || MapPrototypeGetSize(this.#stores) > 0;
      }

      subscribe(subscription) {
        needFunction(subscription, "subscription");
        const all = ArrayPrototypeSlice(this.#subscribers);
        ArrayPrototypePush(all, subscription);
        this.#subscribers = all;
      }

      unsubscribe(subscription) {
        const at = ArrayPrototypeIndexOf(this.#subscribers, subscription);
        if (at < 0) return false;
        const all = ArrayPrototypeSlice(this.#subscribers);
        ArrayPrototypeSplice(all, at, 1);
        this.#subscribers = all;
        return true;
      }

      bindStore(store, transform = undefined) {
        MapPrototypeSet(this.#stores, store, transform);
      }

      unbindStore(store) {
        return MapPrototypeDelete(this.#stores, store);
      }

      publish(message) {
        const all = this.#subscribers;
        for (let i = 0; i < all.length; i++) {
          try {
            ReflectApply(all[i], undefined, [message, this.name]);
          } catch (error) {
            internal.reportError(error);
          }
        }
      }

      runStores(context, callback, thisArg = undefined, ...args) {
        let run = () => {
          this.publish(context);
          return ReflectApply(callback, thisArg, args);
        };
        MapPrototypeForEach(this.#stores, (transform, store) => {
          const next = run;
          run = () => {
            let value = context;
            if (transform !== undefined) {
              try {
                value = transform(context);
              } catch (error) {
                internal.reportError(error);
                return next();
              }
            }
            return store.run(value, next);
          };
        });
        return run();
      }
    }

    function channel(name) {
      if (typeof name !== "string" && typeof name !== "symbol") throw invalid("channel", "one of type string or symbol", name);
      let found = MapPrototypeGet(channels, name);
      if (found === undefined) MapPrototypeSet(channels, name, found = new Channel(name));
      return found;
    }

    const EVENTS = ["start", "end", "asyncStart", "asyncEnd", "error"];

    class TracingChannel {
      constructor(given) {
        for (let i = 0; i < EVENTS.length; i++) {
          this[EVENTS[i]] = typeof given === "string" ? channel(`tracing:${given}:${EVENTS[i]}`) : given[EVENTS[i]];
        }
      }

      get hasSubscribers() {
        for (let i = 0; i < EVENTS.length; i++) if (this[EVENTS[i]]?.hasSubscribers) return true;
        return false;
      }

      subscribe(handlers) {
        for (let i = 0; i < EVENTS.length; i++) {
          if (handlers[EVENTS[i]] !== undefined) this[EVENTS[i]]?.subscribe(handlers[EVENTS[i]]);
        }
      }

      unsubscribe(handlers) {
        let done = true;
        for (let i = 0; i < EVENTS.length; i++) {
          const handler = handlers[EVENTS[i]];
          if (handler !== undefined && !this[EVENTS[i]]?.unsubscribe(handler)) done = false;
        }
        return done;
      }

      /** @this {any} */
      traceSync(fn, context = {}, thisArg = undefined, ...args) {
        if (!this.hasSubscribers) return ReflectApply(fn, thisArg, args);
        return this.start.runStores(context, () => {
          try {
            return (context.result = ReflectApply(fn, thisArg, args));
          } catch (error) {
            context.error = error;
            this.error.publish(context);
            throw error;
          } finally {
            this.end.publish(context);
          }
        });
      }

      /** @this {any} */
      tracePromise(fn, context = {}, thisArg = undefined, ...args) {
        if (!this.hasSubscribers) return ReflectApply(fn, thisArg, args);
        const settled = (publish) => {
          publish();
          this.asyncStart.publish(context);
          this.asyncEnd.publish(context);
        };
        return this.start.runStores(context, () => {
          try {
            return (async () => {
              try {
                context.result = await ReflectApply(fn, thisArg, args);
              } catch (error) {
                context.error = error;
                settled(() => this.error.publish(context));
                throw error;
              }
              settled(() => {});
              return context.result;
            })();
          } finally {
            this.end.publish(context);
          }
        });
      }

      /** @this {any} */
      traceCallback(fn, position = -1, context = {}, thisArg = undefined, ...args) {
        if (!this.hasSubscribers) return ReflectApply(fn, thisArg, args);
        const at = position < 0 ? args.length + position : position;
        const callback = needFunction(args[at], "callback");
        const { asyncEnd, asyncStart, error: failed } = this;
        args[at] = function (error, result) {
          if (error) {
            context.error = error;
            failed.publish(context);
          } else {
            context.result = result;
          }
          return asyncStart.runStores(context, () => {
            try {
              return ReflectApply(callback, this, [error, result]);
            } finally {
              asyncEnd.publish(context);
            }
          });
        };
        return this.start.runStores(context, () => {
          try {
            return ReflectApply(fn, thisArg, args);
          } catch (error) {
            context.error = error;
            this.error.publish(context);
            throw error;
          } finally {
            this.end.publish(context);
          }
        });
      }
    }

    return {
      Channel,
      channel,
      hasSubscribers: (name) => MapPrototypeGet(channels, name)?.hasSubscribers ?? false,
      subscribe: (name, subscription) => channel(name).subscribe(subscription),
      tracingChannel: (given) => new TracingChannel(given),
      unsubscribe: (name, subscription) => channel(name).unsubscribe(subscription),
    };
  });
})
