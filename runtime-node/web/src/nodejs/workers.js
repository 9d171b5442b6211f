// cloudflare:workers: what a handler is given, for code that nobody hands it to, and the classes that handlers may be.
(function (internal) {
  "use strict";

  internal.define("workers", () => {
    // Of a default export that is a class with handlers, each event has an instance.
    class WorkerEntrypoint {
      constructor(ctx, env) {
        this.ctx = ctx;
        this.env = env;
      }
    }

    return {
      WorkerEntrypoint,
      env: internal.env(),
      waitUntil(promise) {
        internal.waitUntil(promise);
      },
    };
  });
})
