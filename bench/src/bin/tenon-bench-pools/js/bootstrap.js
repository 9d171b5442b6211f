// The global objects with which every isolate of the harness begins: the minimum that a Worker
// needs. This script is evaluated once, when the snapshot is made. `internal.begin` and
// `internal.respond` are set to native functions when a context is created.
(function () {
  "use strict";

  const internal = { begin: undefined, respond: undefined };

  // The callbacks of pending operations, by the operation's number.
  const waiting = new Map();

  function begin(kind, argument, callback) {
    waiting.set(internal.begin(kind, argument), callback);
  }

  class Headers {
    #values = new Map();

    // `flat` is a list: name, value, name, value, …
    constructor(flat) {
      for (let i = 0; i < flat.length; i += 2) this.#values.set(flat[i], flat[i + 1]);
    }

    get(name) {
      return this.#values.get(name.toLowerCase()) ?? null;
    }
  }

  class Request {
    #method;
    #url;
    #headers;

    constructor(method, url, headers) {
      this.#method = method;
      this.#url = url;
      this.#headers = headers;
    }

    get method() {
      return this.#method;
    }

    get url() {
      return this.#url;
    }

    get headers() {
      if (Array.isArray(this.#headers)) this.#headers = new Headers(this.#headers);
      return this.#headers;
    }
  }

  class Response {
    #body;
    #status;

    constructor(body, init) {
      this.#body = body;
      this.#status = init?.status ?? 200;
    }

    get status() {
      return this.#status;
    }

    async text() {
      return this.#body;
    }

    static respond(response) {
      internal.respond(response.#status, response.#body);
    }
  }

  const { respond } = Response;
  delete Response.respond;

  globalThis.Headers = Headers;
  globalThis.Request = Request;
  globalThis.Response = Response;
  globalThis.setTimeout = (callback, milliseconds) => begin("sleep", milliseconds, callback);
  globalThis.fetch = (url) =>
    new Promise((resolve) => begin("fetch", url, (status, body) => resolve(new Response(body, { status }))));

  // Each turn begins with a call of one of these two functions.
  internal.deliver = async (handler, env, method, url, headers) =>
    respond(await handler.fetch(new Request(method, url, headers), env));
  internal.complete = (operation, status, body) => {
    const callback = waiting.get(operation);
    waiting.delete(operation);
    callback(status, body);
  };

  return internal;
})();
