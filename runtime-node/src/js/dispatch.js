// Where native code calls in: the start of a Worker, and the delivery of events to it.
//
//   hooks.start(id, evaluation, namespace, variables)   the modules have been evaluated, or will have been when the
//                                                       promise `evaluation` settles
//   hooks.fetch(id, method, url, hasBody)               deliver a request
//   hooks.import(specifier, referrer, attributes)       what `import()` gives
//
// and calls back:
//
//   ops.started(id)                                     the Worker can take events
//   ops.respond(id, status, headers, body)              the invocation's answer
//   ops.respondStream(id, status, headers, owner, number)   the same with a native stream
//   ops.onCallerLeft(id, callback)                      the client has gone before the end of the answer
//   ops.fail(id, error)                                 the invocation threw
//   ops.waitUntil(id), ops.waitOver(id)                 one more, one less promise that the invocation outlives
//   ops.requestHeaders(id)                              what many handlers never look at
//   ops.evaluateModule(specifier, referrer, attributes) [the promise of its evaluation, its namespace]
//
// `id` names the invocation. All of this runs in turns of that invocation, or of others whose promises it awaits.
(function (internal) {
  "use strict";

  const {
    ObjectFreeze, ObjectDefineProperty, PromisePrototypeThen, PromiseResolve, ReflectApply,
    SymbolToStringTag, TypeError,
  } = internal.primordials;
  const { hooks, ops } = internal;
  const bodies = internal.body;

  // The number of the native stream that is an invocation's request's body.
  const REQUEST_BODY = 0;

  // What takes requests: `handler.fetch` of the entrypoint's default export, or nothing for the listeners of the
  // global scope.
  let handler = null;
  let fetch = null;
  // The bindings, frozen: every invocation sees the same object.
  let env;

  function outlive(id, promise) {
    // Before it counts: asking it for its `constructor` may throw.
    const kept = PromiseResolve(promise);
    if (!ops.waitUntil(id)) return;
    PromisePrototypeThen(
      kept,
      () => ops.waitOver(id),
      (error) => {
        internal.reportError(error);
        ops.waitOver(id);
      },
    );
  }

  class ExecutionContext {
    #id;

    constructor(key, id) {
      if (key !== ops) throw new TypeError("Illegal constructor");
      this.#id = id;
    }
    waitUntil(promise) {
      outlive(this.#id, promise);
    }
    // There is no origin behind a Worker to pass on to.
    passThroughOnException() {
      this.#id;
    }
  }
  ObjectDefineProperty(ExecutionContext.prototype, SymbolToStringTag, {
    __proto__: null, value: "ExecutionContext", configurable: true,
  });

  hooks.start = async (id, evaluation, namespace, variables) => {
    try {
      await evaluation;
      env = ObjectFreeze(variables);
      const exported = namespace.default;
      if (exported !== undefined && exported !== null && typeof exported.fetch === "function") {
        handler = exported;
        fetch = exported.fetch;
      } else if (!internal.fetchEvents().hasListener()) {
        throw new TypeError(
          "The entrypoint has no handler: export default { fetch(request, env, ctx) { … } }, " +
            'or addEventListener("fetch", …)',
        );
      }
      ops.started(id);
    } catch (error) {
      ops.fail(id, error);
    }
  };

  hooks.import = async (specifier, referrer, attributes) => {
    // Not while another module is being evaluated.
    await undefined;
    const module = ops.evaluateModule(specifier, referrer, attributes);
    await module[0];
    return module[1];
  };

  function respondStream(id, status, headers, stream) {
    const pipe = bodies.pipeOf(stream, id);
    outlive(id, pipe.over);
    ops.onCallerLeft(id, () => {
      pipe.leave(new (internal.exceptions().DOMException)("The client has gone away", "AbortError"));
    });
    ops.respondStream(id, status, headers, id, pipe.number);
  }

  hooks.fetch = async (id, method, url, hasBody) => {
    try {
      const request = internal.newRequest(
        id, method, url, () => ops.requestHeaders(id), hasBody ? bodies.native(id, REQUEST_BODY) : null,
      );
      const answer = fetch !== null
        ? ReflectApply(fetch, handler, [request, env, new ExecutionContext(ops, id)])
        : internal.fetchEvents().dispatch(request, (promise) => outlive(id, promise));
      // A response is not awaited for: that would ask it for a `then`.
      const parts = internal.responseParts(internal.isResponse(answer) ? answer : await answer);
      const source = parts[2], stream = parts[3];
      if (stream !== null) respondStream(id, parts[0], parts[1], stream);
      else if (bodies.isNative(source)) ops.respondStream(id, parts[0], parts[1], source.owner, source.number);
      else ops.respond(id, parts[0], parts[1], source);
    } catch (error) {
      ops.fail(id, error);
    }
  };
})
