// cloudflare:workers: `env` and `waitUntil` for code without access to a handler's arguments, and
// the classes of calls between Workers.
//: module
(function (internal) {
  "use strict";

  internal.define("workers", () => {
    const { RpcTarget, WorkerEntrypoint } = internal.rpcTargets();
    const { RpcPromise, RpcProperty, RpcStub } = internal.rpcStubs();
    return {
      RpcPromise, RpcProperty, RpcStub, RpcTarget, WorkerEntrypoint,
      env: internal.env(),
      waitUntil(promise) {
        internal.waitUntil(promise);
      },
    };
  });
})
