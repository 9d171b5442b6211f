// node:http and node:https: the exports of the modules.
//
// A client sends its requests with `fetch`, so the limits and rules of `fetch` apply to it: there
// are no connections to manage. A server receives the requests that the Worker hands to it (see
// node-http-server.js). The router and the client of `fetch` perform TLS, so the modules differ
// only in the default protocol.
//: module
(function (internal) {
  "use strict";

  const { ObjectSetPrototypeOf, ReflectApply } = internal.primordials;

  // The status codes and phrases of Node.js.
  const STATUS_CODES = {
    100: "Continue", 101: "Switching Protocols", 102: "Processing", 103: "Early Hints", 200: "OK", 201: "Created",
    202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content", 205: "Reset Content", 206: "Partial Content",
    207: "Multi-Status", 208: "Already Reported", 226: "IM Used", 300: "Multiple Choices", 301: "Moved Permanently",
    302: "Found", 303: "See Other", 304: "Not Modified", 305: "Use Proxy", 307: "Temporary Redirect", 308: "Permanent Redirect",
    400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 406: "Not Acceptable", 407: "Proxy Authentication Required", 408: "Request Timeout",
    409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Payload Too Large",
    414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable", 417: "Expectation Failed",
    418: "I'm a Teapot", 421: "Misdirected Request", 422: "Unprocessable Entity", 423: "Locked", 424: "Failed Dependency",
    425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required", 429: "Too Many Requests",
    431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons", 500: "Internal Server Error",
    501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
    505: "HTTP Version Not Supported", 506: "Variant Also Negotiates", 507: "Insufficient Storage", 508: "Loop Detected",
    509: "Bandwidth Limit Exceeded", 510: "Not Extended", 511: "Network Authentication Required",
  };
  const METHODS = [
    "ACL", "BIND", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LINK", "LOCK", "M-SEARCH", "MERGE", "MKACTIVITY",
    "MKCALENDAR", "MKCOL", "MOVE", "NOTIFY", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PURGE", "PUT", "QUERY",
    "REBIND", "REPORT", "SEARCH", "SOURCE", "SUBSCRIBE", "TRACE", "UNBIND", "UNLINK", "UNLOCK", "UNSUBSCRIBE",
  ];

  internal.define("httpStatus", () => STATUS_CODES);

  // An Agent has the properties that packages read, but manages no connections: the client of
  // `fetch` pools them itself.
  internal.define("httpAgent", () => {
    const { defineHidden, refused } = internal.node;
    const EventEmitter = internal.use("events");

    /** @returns {void} */
    function Agent(options) {
      if (!(this instanceof Agent)) return new Agent(options);
      ReflectApply(EventEmitter, this, []);
      this.defaultPort = 80;
      this.protocol = "http:";
      this.options = { __proto__: null, path: null, ...options };
      this.requests = { __proto__: null };
      this.sockets = { __proto__: null };
      this.freeSockets = { __proto__: null };
      this.keepAliveMsecs = options?.keepAliveMsecs ?? 1000;
      this.keepAlive = options?.keepAlive ?? false;
      this.maxSockets = options?.maxSockets ?? Infinity;
      this.maxFreeSockets = options?.maxFreeSockets ?? 256;
      this.maxTotalSockets = options?.maxTotalSockets ?? Infinity;
      this.scheduling = options?.scheduling ?? "lifo";
      this.totalSocketCount = 0;
    }
    ObjectSetPrototypeOf(Agent.prototype, EventEmitter.prototype);
    ObjectSetPrototypeOf(Agent, EventEmitter);
    defineHidden(Agent.prototype, {
      createConnection() {
        throw refused("Agent.createConnection", "requests are sent with fetch");
      },
      destroy() {},
      getName(options = undefined) {
        const family = options?.family === 4 || options?.family === 6 ? `:${options.family}` : "";
        return `${options?.host ?? "localhost"}:${options?.port ?? ""}:${options?.localAddress ?? ""}${family}`;
      },
      keepSocketAlive() {
        return false;
      },
      removeSocket() {},
      reuseSocket() {},
    });

    /** @returns {void} */
    function SecureAgent(options) {
      if (!(this instanceof SecureAgent)) return new SecureAgent(options);
      ReflectApply(Agent, this, [options]);
      this.defaultPort = 443;
      this.protocol = "https:";
      this.maxCachedSessions = options?.maxCachedSessions ?? 100;
    }
    ObjectSetPrototypeOf(SecureAgent.prototype, Agent.prototype);
    ObjectSetPrototypeOf(SecureAgent, Agent);
    return { Agent, SecureAgent };
  });

  // Returns the functions that send requests, given a function that returns the defaults.
  const senders = (defaults) => {
    const { ClientRequest } = internal.use("httpClient");
    const request = (url, options, callback) => new ClientRequest(url, options, callback, defaults());
    return {
      request,
      get(url, options, callback) {
        const sent = request(url, options, callback);
        sent.end();
        return sent;
      },
    };
  };

  internal.define("http", () => {
    const { needInteger } = internal.node;
    const { Agent } = internal.use("httpAgent");
    const { OutgoingMessage, validateHeaderName, validateHeaderValue } = internal.use("httpOutgoing");
    const { Server, ServerResponse } = internal.use("httpServer");

    const http = {
      Agent, METHODS, OutgoingMessage, STATUS_CODES, Server, ServerResponse, validateHeaderName, validateHeaderValue,
      ...senders(() => ({ protocol: "http:", agent: http.globalAgent })),
      ClientRequest: internal.use("httpClient").ClientRequest,
      IncomingMessage: internal.use("httpIncoming").IncomingMessage,
      createServer: (options, listener) => new Server(options, listener),
      globalAgent: new Agent({ keepAlive: true, scheduling: "lifo", timeout: 5000 }),
      maxHeaderSize: 16384,
      setMaxIdleHTTPParsers(max) {
        needInteger(max, "max", 1);
      },
    };
    return http;
  });

  internal.define("https", () => {
    const { SecureAgent } = internal.use("httpAgent");
    const { SecureServer } = internal.use("httpServer");
    const https = {
      Agent: SecureAgent,
      Server: SecureServer,
      ...senders(() => ({ protocol: "https:", agent: https.globalAgent })),
      createServer: (options, listener) => new SecureServer(options, listener),
      globalAgent: new SecureAgent({ keepAlive: true, scheduling: "lifo", timeout: 5000 }),
    };
    return https;
  });
})
