// The interface to native code: the start of a Worker, and the delivery of events to it.
//
// Native code calls
//
//   hooks.bind(variables, fetchers, workers)            sets `env` before the Worker's code runs;
//                                                       the first `workers` fetchers are Workers
//   hooks.start(id, evaluation, namespace)              starts the Worker; the promise `evaluation`
//                                                       settles when its modules are evaluated
//   hooks.fetch(id, method, url, hasBody, name)         delivers a request to the export `name`; if
//                                                       the name is empty, to the default export
//                                                       or the listeners of the global scope
//   hooks.rpc(id, name)                                 delivers a session of calls to an export
//   hooks.scheduled(id, cron, time)                     delivers a scheduled event
//   hooks.import(specifier, referrer, attributes)       evaluates `import()`
//
// and this file calls
//
//   ops.done(id)                                        the Worker is ready, or an event without a
//                                                       response has been handled
//   ops.respond(id, status, headers, body)              the invocation's response
//   ops.respondStream(id, status, headers, owner, number)   the same with a native stream
//   ops.onClientLeft(id, callback)                      calls `callback` if the client disconnects
//                                                       before the response has been sent
//   ops.fail(id, error)                                 the invocation threw
//   ops.invocationNow()                                 the invocation on whose behalf JavaScript
//                                                       runs, or 0
//   ops.waitUntil(id)                                   adds a promise that keeps the invocation
//                                                       alive; false if the invocation has ended
//   ops.waitOver(id)                                    removes such a promise
//   ops.requestHeaders(id)                              reads the headers on demand
//   ops.evaluateModule(specifier, referrer, attributes) {evaluation: a promise, namespace}
//
// `id` names the invocation. All of these functions run in turns of that invocation, or of other
// invocations whose promises it awaits.
//: eager, after scheduled.js service.js websocket-pair.js
(function (internal) {
  "use strict";

  const {
    ObjectFreeze, ObjectDefineProperty, ObjectHasOwn, PromisePrototypeThen, PromiseResolve, ReflectApply, ReflectOwnKeys,
    SymbolToStringTag, TypeError,
  } = internal.primordials;
  const { needs } = internal.webidl;
  const { hooks, ops } = internal;
  const bodies = internal.body;

  // The number of the native stream that is the body of an invocation's request.
  const REQUEST_BODY = 0;

  // The entrypoint's default export, and its handlers `fetch` and `scheduled`. If the default
  // export is a class, a handler creates an instance for each event. A handler is null if the
  // default export has none; listeners of the global scope may then handle the event.
  let defaultExport = null;
  let fetch = null;
  let scheduled = null;
  // The exports of the entrypoint's module.
  let exports;
  // The bindings, frozen: every invocation sees the same object.
  let env;

  // Keeps an invocation alive until the promise settles, and reports a rejection.
  function keepAlive(id, promise) {
    // PromiseResolve comes first, because it reads the promise's `constructor`, which may throw.
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
    // The function that `waitUntil` calls instead of keeping the invocation alive, or null.
    #keep;

    constructor(key, id, keep = null) {
      if (key !== ops) throw new TypeError("Illegal constructor");
      this.#id = id;
      this.#keep = keep;
    }
    waitUntil(promise) {
      const keep = this.#keep;
      needs(arguments.length, 1, "waitUntil");
      if (keep === null) keepAlive(this.#id, promise);
      else keep(promise);
    }
    // Does nothing, because there is no origin behind a Worker.
    passThroughOnException() {
      this.#id; // a brand check
    }
  }
  ObjectDefineProperty(ExecutionContext.prototype, SymbolToStringTag, {
    __proto__: null, value: "ExecutionContext", configurable: true,
  });

  hooks.bind = (variables, fetchers, workers) => {
    if (fetchers.length > 0) internal.service().bind(variables, fetchers, workers);
    env = ObjectFreeze(variables);
  };

  // The members of the module `cloudflare:workers`, for code that does not receive the arguments of
  // a handler.
  internal.env = () => env;
  internal.waitUntil = (promise) => {
    const id = ops.invocationNow();
    if (id === 0) throw new TypeError("waitUntil: no request and no other event is being handled");
    keepAlive(id, promise);
  };

  hooks.start = async (id, evaluation, namespace) => {
    try {
      await evaluation;
      exports = namespace;
      const exported = namespace.default;
      if (exported !== undefined && exported !== null) {
        defaultExport = exported;
        fetch = handlerOf(exported, "fetch");
        scheduled = handlerOf(exported, "scheduled");
      }
      if (fetch === null && scheduled === null && !hasListeners() && !hasEntrypoint()) {
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

  // Returns the handler that an export has under this name; null if it has none. For a class, the
  // handler is a method of its instances.
  const handlerOf = (exported, name) => {
    const prototype = typeof exported === "function" && exported.fetch === undefined ? exported.prototype : undefined;
    const onEvent = (prototype ?? exported)[name];
    if (typeof onEvent !== "function") return null;
    return prototype === undefined ? onEvent : onNewInstance(name);
  };

  // Returns a handler that creates an instance of the class for each event, with the arguments that
  // the constructor of `WorkerEntrypoint` takes.
  const onNewInstance = (name) => function (event, env, context) {
    const instance = new this(context, env);
    return instance[name](event);
  };

  // Returns whether the global scope has listeners. `scopeListeners` only counts them, so that no
  // object of a late file is created.
  const hasListeners = () => internal.scopeListeners("fetch") > 0 || internal.scopeListeners("scheduled") > 0;

  // Returns whether the Worker exports a class whose methods can be called.
  const hasEntrypoint = () => {
    const { isEntrypointClass } = internal.rpcTargets();
    const names = ReflectOwnKeys(exports);
    for (let i = 0; i < names.length; i++) if (isEntrypointClass(exports[names[i]])) return true;
    return false;
  };

  const exportNamed = (name) => {
    if (name === "") return exports.default;
    if (!ObjectHasOwn(exports, name)) throw new TypeError(`The Worker has no export "${name}"; correct spec.services.entrypoint of the caller`);
    return exports[name];
  };

  // Delivers a request to a named export.
  function fetchNamed(name, request, id) {
    const exported = exportNamed(name);
    const onFetch = exported === undefined || exported === null ? null : handlerOf(exported, "fetch");
    if (onFetch === null) throw new TypeError(`The export "${name}" has no fetch handler`);
    return ReflectApply(onFetch, exported, [request, env, new ExecutionContext(ops, id)]);
  }

  hooks.rpc = (id, name) => {
    try {
      internal.rpcConnections().serve(
        id, () => internal.rpcTargets().entrypoint(exportNamed(name), name, new ExecutionContext(ops, id), env),
      );
    } catch (error) {
      ops.fail(id, error);
    }
  };

  function listen(request, id) {
    if (internal.scopeListeners("fetch") === 0) {
      throw new TypeError("The entrypoint has no fetch handler: export default { async fetch(request, env, ctx) { … } }");
    }
    return internal.fetchEvents().dispatch(request, (promise) => keepAlive(id, promise));
  }

  hooks.scheduled = async (id, cron, time) => {
    try {
      const handle = scheduled === null ? null : (controller, keep) =>
        ReflectApply(scheduled, defaultExport, [controller, env, new ExecutionContext(ops, id, keep)]);
      await internal.scheduled().dispatch(handle, cron, time);
      ops.done(id);
    } catch (error) {
      ops.fail(id, error);
    }
  };

  hooks.import = async (specifier, referrer, attributes) => {
    // Evaluation must not start while another module is being evaluated.
    await undefined;
    const module = ops.evaluateModule(specifier, referrer, attributes);
    await module.evaluation;
    return module.namespace;
  };

  function respondStream(id, status, headers, stream) {
    const pipe = bodies.pipeOf(stream, id);
    keepAlive(id, pipe.over);
    ops.onClientLeft(id, () => {
      pipe.leave(new (internal.exceptions().DOMException)("The client disconnected", "AbortError"));
    });
    ops.respondStream(id, status, headers, id, pipe.number);
  }

  hooks.fetch = async (id, method, url, hasBody, name) => {
    try {
      const request = internal.newRequest(
        id, method, url, () => ops.requestHeaders(id), hasBody ? bodies.native(id, REQUEST_BODY) : null,
      );
      const answer = name !== "" ? fetchNamed(name, request, id) : fetch !== null
        ? ReflectApply(fetch, defaultExport, [request, env, new ExecutionContext(ops, id)])
        : listen(request, id);
      // A Response is not awaited, because `await` reads `then`.
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
