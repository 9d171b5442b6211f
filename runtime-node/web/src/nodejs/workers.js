// cloudflare:workers: `env` and `waitUntil` for code without access to a handler's arguments, and
// the base class of entrypoints.
//: module
(function (internal) {
  "use strict";

  internal.define("workers", () => {
    // If the default export is a class, each event creates an instance of it.
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
