// The two ends of a session. The caller's end opens the session with a call of a binding. The
// callee's end belongs to an invocation. Each end has a pipe for its messages and reads those of
// the other end from a native stream.
//: late, after rpc-session.js
(function (internal) {
  "use strict";

  const { Error, MapPrototypeSet, PromisePrototypeThen, TypeError } = internal.primordials;
  const { ops } = internal;

  internal.later("rpcConnections", [], () => {
    const { newProperty } = internal.rpcStubs();
    const { MAIN, REFERENCE, Session, lost } = internal.rpcSessions();

    // The number of the native stream that is the body of an invocation's request.
    const REQUEST_BODY = 0;
    const nothing = () => {};

    // Writes to a pipe. If the peer reads slowly, the pipe grows. Its content counts as memory of
    // this Worker.
    const writeTo = (owner, number, bytes) => {
      const room = ops.pipeWrite(owner, number, bytes);
      if (room !== undefined) PromisePrototypeThen(room, undefined, nothing);
    };

    // ---- The caller's side

    // Calls the entrypoint of the Worker that is bound at the index `service`. Returns a Pending.
    function open(service, path, args) {
      const owner = ops.invocationNow();
      if (owner === 0) throw new Error("A Worker can be called only while a request or another event is being handled");
      let number = null;
      const session = new Session(owner, false, {
        __proto__: null,
        write(bytes) {
          try {
            writeTo(owner, number, bytes);
          } catch (error) {
            // If the session could not be opened, `connect` ends it with the cause.
            if (session.isOpen || !(error instanceof TypeError)) throw error;
          }
        },
        close: () => ops.pipeClose(owner, number),
        end: () => ops.pipeAbort(owner, number),
      });
      const pending = session.invoke(REFERENCE, MAIN, path, args);
      number = ops.pipeOpen(owner);
      PromisePrototypeThen(connect(session, service, path, number), nothing, (error) => session.end(error));
      return pending;
    }

    async function connect(session, service, path, number) {
      const name = path.length === 0 ? "" : path[path.length - 1];
      const outcome = /** @type {Fetched | Failed} */ (await ops.rpcOpen(service, name, session.owner, number));
      if ("stage" in outcome) throw new Error(outcome.message);
      session.isOpen = true;
      if (outcome.owner === null) throw lost("the Worker sent nothing");
      await session.read(outcome.owner, outcome.stream);
    }

    // ---- The callee's side

    // Serves the session that the request of the invocation `id` opens. `make()` returns an
    // instance of the entrypoint.
    function serve(id, make) {
      let number = null;
      const session = new Session(id, true, {
        __proto__: null,
        write(bytes) {
          if (number !== null) return writeTo(id, number, bytes);
          // If this is the only call and no references are left, its answer is the whole response.
          if (session.isSingleCall && session.isIdle()) {
            session.wasClosed = true;
            return ops.respond(id, 200, [], bytes);
          }
          number = ops.pipeOpen(id);
          ops.waitUntil(id);
          ops.onClientLeft(id, () => session.end(lost("the caller disconnected")));
          writeTo(id, number, bytes);
          ops.respondStream(id, 200, [], id, number);
        },
        close() {
          if (number === null) return ops.respond(id, 200, [], null);
          ops.pipeClose(id, number);
          ops.waitOver(id);
        },
        end(error) {
          if (session.wasClosed) return;
          if (number === null) return ops.fail(id, error);
          ops.pipeAbort(id, number);
          ops.waitOver(id);
        },
      });
      let instance = null;
      session.main = { __proto__: null, get: () => (instance ??= make()) };
      MapPrototypeSet(session.exports, MAIN, session.main);
      PromisePrototypeThen(session.read(id, REQUEST_BODY), undefined, nothing);
    }

    // Returns the property of a binding: `env.OTHER.name`.
    const ofBinding = (service, name) =>
      newProperty({ __proto__: null, begin: (path, args) => open(service, path, args) }, name);
    return { __proto__: null, ofBinding, serve };
  });
})
