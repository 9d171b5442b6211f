// The events of the Service Workers syntax: `addEventListener("fetch", (event) =>
// event.respondWith(…))`.
//: late, after request.js
(function (internal) {
  "use strict";

  const { PromiseResolve, TypeError } = internal.primordials;
  const { dictionary, expose, needs } = internal.webidl;

  internal.later("fetchEvents", ["ExtendableEvent", "FetchEvent"], () => {
    const { Event, deliverToScope, stopNow } = internal.events();
    let setWaitUntil; // (event, waitUntil): sets the function behind `waitUntil`
    let answer; // (event) → the argument of respondWith; undefined if it was not called
    let close; // (event): ends the delivery

    class ExtendableEvent extends Event {
      #waitUntil = null;

      static {
        setWaitUntil = (event, waitUntil) => {
          event.#waitUntil = waitUntil;
        };
      }

      constructor(type, options = undefined) {
        needs(arguments.length, 1, "ExtendableEvent");
        super(type, options);
      }

      waitUntil(promise) {
        const waitUntil = this.#waitUntil;
        needs(arguments.length, 1, "waitUntil");
        if (waitUntil === null) throw new (internal.exceptions().DOMException)("The event is not being handled", "InvalidStateError");
        waitUntil(PromiseResolve(promise));
      }
    }
    expose(ExtendableEvent);

    class FetchEvent extends ExtendableEvent {
      #request;
      #answer = undefined;
      #open = true;

      static {
        answer = (event) => event.#answer;
        close = (event) => {
          event.#open = false;
        };
      }

      constructor(type, options) {
        needs(arguments.length, 2, "FetchEvent");
        super(type, options);
        const { request } = dictionary(options, "FetchEvent");
        if (!internal.isRequest(request)) throw new TypeError("FetchEvent: options need a request");
        this.#request = request;
      }

      get request() {
        return this.#request;
      }

      respondWith(response) {
        this.#request; // a brand check
        needs(arguments.length, 1, "respondWith");
        if (!this.#open || this.#answer !== undefined) {
          throw new (internal.exceptions().DOMException)(
            this.#open ? "respondWith was already called" : "respondWith must be called while the event is delivered",
            "InvalidStateError",
          );
        }
        this.#answer = PromiseResolve(response);
        stopNow(this);
      }

      // Does nothing, because there is no origin behind a Worker.
      passThroughOnException() {
        this.#request; // a brand check
      }
    }
    expose(FetchEvent);

    // Delivers a request to the listeners of the global scope. Returns a promise of the argument of
    // `respondWith`, or undefined if no listener called it. `waitUntil(promise)` keeps the
    // invocation alive.
    const dispatch = (request, waitUntil) => {
      const event = new FetchEvent("fetch", { __proto__: null, cancelable: true, request });
      setWaitUntil(event, waitUntil);
      deliverToScope(event);
      close(event);
      return answer(event);
    };
    return { ExtendableEvent, FetchEvent, setWaitUntil, dispatch };
  });
})
