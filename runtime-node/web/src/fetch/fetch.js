// fetch (Fetch §5.6), as far as it applies to a server: no cache, no cookies, no CORS.
//
// Native code sends the request, follows redirects, decodes content codings and reports when the
// head of a response has arrived (`fetch.rs`). Native code itself sends a request body that is a
// native stream, and keeps a response body until JavaScript reads it. JavaScript never sees a body
// that is only forwarded.
//: late, after request.js response.js
(function (internal) {
  "use strict";

  const {
    Error, ObjectDefineProperty, PromisePrototypeThen, PromiseWithResolvers, RegExpPrototypeExec, TypeError,
  } = internal.primordials;
  const { needs } = internal.webidl;
  const { ops } = internal;
  const bodies = internal.body;

  const DATA = /^data:/;

  internal.later("fetch", ["fetch"], () => {
    // Creates the error of a failed fetch, whose message says what happened. Unless another cause
    // is given, the error's cause has the `stage`.
    function failure(stage, message, cause = undefined) {
      if (cause === undefined) {
        cause = new Error(message);
        ObjectDefineProperty(cause, "stage", { __proto__: null, value: stage, writable: true, configurable: true });
      }
      return new TypeError(`fetch failed: ${message}`, { __proto__: null, cause });
    }

    function outgoing({ body, list }) {
      if (body === null) return bodies.outgoing(null, null);
      const source = bodies.take(body);
      if (source === null) bodies.declareLength(list, body.stream);
      return bodies.outgoing(source, body.stream);
    }

    const send = async (r, service = null) => internal.newResponse(await receive(r, service));

    // Sends a request's record (`request.js`) to an origin, or to the target of the binding at the
    // index `service`. Returns a promise of the parts of a response's record (`response.js`).
    async function receive(r, service = null) {
      const { signal } = r;
      if (signal !== null && internal.abort().isAborted(signal)) throw abandon(r, internal.abort().abortReason(signal));
      if (service === null && RegExpPrototypeExec(DATA, r.url) !== null) return fetchDataUrl(r);
      const sent = outgoing(r);
      const { promise, resolve, reject } = PromiseWithResolvers();
      let broken = null;
      if (sent.pipe !== null) {
        // If writing the body fails, the request fails, and the error below reports this error as
        // its cause.
        PromisePrototypeThen(sent.pipe.over, undefined, (error) => {
          broken = { __proto__: null, error };
        });
      }
      let source = null;
      let number = 0;
      if (signal !== null) {
        number = ops.fetchNumber();
        internal.abort().onAbort(signal, (reason) => {
          ops.fetchAbort(number);
          if (sent.pipe !== null) sent.pipe.leave(reason);
          if (source !== null) ops.streamCancel(source.owner, source.number);
          reject(reason);
        }, () => ops.fetchIsOver(number));
      }
      const { redirect } = r.options;
      const { content, owner, number: stream } = sent;
      const answered = service === null
        ? ops.fetchSend(number, r.method, r.url, r.list, redirect, content, owner, stream)
        : ops.serviceSend(number, r.method, r.url, r.list, redirect, content, owner, stream, service);
      PromisePrototypeThen(answered, resolve, reject);
      const outcome = await promise;
      if ("stage" in outcome) {
        const { stage, message } = outcome;
        if (broken !== null) throw failure(stage, "the request's body was interrupted", broken.error);
        throw failure(stage, message);
      }
      if (outcome.owner !== null) source = bodies.native(outcome.owner, outcome.stream, signal);
      return {
        __proto__: null,
        status: outcome.status,
        statusText: outcome.statusText,
        // The client follows redirects with its own URL parser, which leaves some characters that
        // `URL` encodes.
        url: outcome.redirected ? internal.parseUrl(outcome.url) ?? outcome.url : outcome.url,
        redirected: outcome.redirected,
        list: outcome.headers,
        body: source === null ? null : bodies.of(source, null),
        socket: outcome.socket,
      };
    }

    // Cancels the body of a request that will not be sent. Returns the reason.
    function abandon(r, reason) {
      if (r.body !== null && r.body.stream !== null && !bodies.isUsed(r.body)) {
        const streams = internal.streams();
        PromisePrototypeThen(streams.cancel(r.body.stream, reason), undefined, () => {});
      }
      return reason;
    }

    function fetchDataUrl(r) {
      const data = ops.dataUrl(r.url);
      if (data === null) throw failure("request", "the data: URL is malformed");
      return {
        __proto__: null,
        status: 200,
        statusText: "OK",
        url: data.url,
        redirected: false,
        list: ["content-type", data.kind],
        body: r.method === "HEAD" ? null : bodies.of(data.bytes, data.kind),
        socket: null,
      };
    }

    const { fetch } = {
      // `return await`: resolving with a returned promise would read `then`, which a Worker may
      // replace.
      async fetch(input, init = undefined) {
        needs(arguments.length, 1, "fetch");
        return await send(internal.requestRecord(input, init));
      },
    };
    return { __proto__: null, fetch, receive, send };
  });
})
