// Where native code calls in: the start of a Worker, and the delivery of events to it.
//
//   hooks.bind(variables, services)                     what the Worker's `env` has; before any of its code runs
//   hooks.start(id, evaluation, namespace)              the modules have been evaluated, or will have been when the
//                                                       promise `evaluation` settles
//   hooks.fetch(id, method, url, hasBody)               deliver a request
//   hooks.scheduled(id, cron, time)                     deliver a time of a schedule
//   hooks.import(specifier, referrer, attributes)       what `import()` gives
//
// and calls back:
//
//   ops.done(id)                                        the Worker can take events; the event has been handled
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
  const { needs } = internal.webidl;
  const { hooks, ops } = internal;
  const bodies = internal.body;

  // The number of the native stream that is an invocation's request's body.
  const REQUEST_BODY = 0;

  // What takes requests: `handler.fetch` of the entrypoint's default export, that of an instance of it where that is a class,
  // or nothing for the listeners of the global scope.
  let handler = null;
  let fetch = null;
  let scheduled = null;
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
    // What keeps a promise, where it is not the invocation.
    #keep;

    constructor(key, id, keep = null) {
      if (key !== ops) throw new TypeError("Illegal constructor");
      this.#id = id;
      this.#keep = keep;
    }
    waitUntil(promise) {
      const keep = this.#keep;
      needs(arguments.length, 1, "waitUntil");
      if (keep === null) outlive(this.#id, promise);
      else keep(promise);
    }
    // There is no origin behind a Worker to pass on to.
    passThroughOnException() {
      this.#id;
    }
  }
  ObjectDefineProperty(ExecutionContext.prototype, SymbolToStringTag, {
    __proto__: null, value: "ExecutionContext", configurable: true,
  });

  hooks.bind = (variables, services) => {
    if (services.length > 0) internal.service().bind(variables, services);
    env = ObjectFreeze(variables);
  };

  // For `cloudflare:workers`, which has no part in any call.
  internal.env = () => env;
  internal.waitUntil = (promise) => {
    const id = ops.invocationNow();
    if (id === 0) throw new TypeError("waitUntil: no request and no other event is being handled");
    outlive(id, promise);
  };

  hooks.start = async (id, evaluation, namespace) => {
    try {
      await evaluation;
      const exported = namespace.default;
      if (exported !== undefined && exported !== null) {
        handler = exported;
        const instances = typeof exported === "function" && exported.fetch === undefined ? exported.prototype : undefined;
        const { fetch: onFetch, scheduled: onScheduled } = instances ?? exported;
        if (typeof onFetch === "function") fetch = instances === undefined ? onFetch : ofOne("fetch");
        if (typeof onScheduled === "function") scheduled = instances === undefined ? onScheduled : ofOne("scheduled");
      }
      if (fetch === null && scheduled === null && !hasListeners()) {
        throw new TypeError(
          "The entrypoint has no handler: export default { fetch(request, env, ctx) { … } }, " +
            'or addEventListener("fetch", …)',
        );
      }
      ops.done(id);
    } catch (error) {
      ops.fail(id, error);
    }
  };

  // The handler of a class, of which each event has an instance, as `WorkerEntrypoint` has it.
  const ofOne = (name) => function (event, env, context) {
    const instance = new this(context, env);
    return instance[name](event);
  };

  // Asked of the global scope's listeners alone: what is made later need not be made for this.
  const hasListeners = () => internal.scopeListeners("fetch") > 0 || internal.scopeListeners("scheduled") > 0;

  function listen(request, id) {
    if (internal.scopeListeners("fetch") === 0) {
      throw new TypeError("The entrypoint has no fetch handler: export default { async fetch(request, env, ctx) { … } }");
    }
    return internal.fetchEvents().dispatch(request, (promise) => outlive(id, promise));
  }

  hooks.scheduled = async (id, cron, time) => {
    try {
      const handle = scheduled === null ? null : (controller, keep) =>
        ReflectApply(scheduled, handler, [controller, env, new ExecutionContext(ops, id, keep)]);
      await internal.scheduled().dispatch(handle, cron, time);
      ops.done(id);
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
        : listen(request, id);
      // A response is not awaited for: that would ask it for a `then`.
      const parts = internal.responseParts(internal.isResponse(answer) ? answer : await answer);
      const source = parts[2], stream = parts[3];
      if (parts[0] === 101) internal.webSocketPairs().respond(id, parts[1], source);
      else if (stream !== null) respondStream(id, parts[0], parts[1], stream);
      else if (bodies.isNative(source)) ops.respondStream(id, parts[0], parts[1], source.owner, source.number);
      else ops.respond(id, parts[0], parts[1], source);
    } catch (error) {
      ops.fail(id, error);
    }
  };
})
