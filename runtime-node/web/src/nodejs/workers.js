// cloudflare:workers: `env` and `waitUntil` for code without access to a handler's arguments, and
// the classes of calls between Workers. `DurableObject` and `WorkflowEntrypoint` exist because
// frameworks export classes that extend them from each build; nothing creates instances.
//: module
(function (internal) {
  "use strict";

  internal.define("workers", () => {
    const { RpcTarget, WorkerEntrypoint } = internal.rpcTargets();
    const { RpcPromise, RpcProperty, RpcStub } = internal.rpcStubs();
    class DurableObject {
      constructor(ctx, env) {
        this.ctx = ctx;
        this.env = env;
      }
    }
    class WorkflowEntrypoint {
      constructor(ctx, env) {
        this.ctx = ctx;
        this.env = env;
      }
    }
    return {
      DurableObject, RpcPromise, RpcProperty, RpcStub, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint,
      env: internal.env(),
      waitUntil(promise) {
        internal.waitUntil(promise);
      },
    };
  });
})
