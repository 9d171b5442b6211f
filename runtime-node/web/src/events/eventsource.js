// EventSource (HTML §9.2) receives a stream of events from an origin, and reconnects when the
// connection is lost.
//
// An EventSource belongs to the invocation that creates it, and ends with that invocation: its
// connections and pauses are fetches and timers of the invocation, and count toward its limits.
//: late, after fetch.js messages.js
(function (internal) {
  "use strict";

  const {
    NumberParseInt, PromisePrototypeThen, RangeError, RegExpPrototypeExec, StringFromCharCode, StringPrototypeCharCodeAt,
    StringPrototypeIndexOf, StringPrototypeSlice, TypedArrayPrototypeGetByteLength,
  } = internal.primordials;
  const { USVString, dictionary, expose, isObject, needs } = internal.webidl;
  const { clearTimeout, setTimeout } = internal.timers;
  const bodies = internal.body;

  internal.later("eventSources", ["EventSource"], () => {
    const { Event, EventTarget, deliver, eventHandler } = internal.events();
    const { abort, newSignal } = internal.abort();
    const { MessageEvent } = internal.messageEvents();
    const { TextDecoder, decode } = internal.encoding();
    const CONNECTING = 0, OPEN = 1, CLOSED = 2;

    // The delay before an EventSource reconnects, in milliseconds: the initial value, and the
    // bounds on the origin's value and on the back-off.
    const PAUSE = 3000, MIN_PAUSE = 100, MAX_PAUSE = 60_000;
    // The maximum number of characters of an incomplete event.
    const MAX_EVENT = 2 ** 24;

    const EVENT_STREAM = /^[\t\n\r ]*text\/event-stream[\t\n\r ]*(?:;|$)/i;
    const ORIGIN = /^[^/]*\/\/[^/?#]*/;
    const DIGITS = /^[0-9]+$/;
    const ASCII = /^[\x00-\x7f]*$/;
    const MORE = { __proto__: null, stream: true };

    // Returns a function that parses text piece by piece. It calls `event(type, data, id)` for each
    // event, with null as the data if there is none, and `retry(milliseconds)` for each `retry`
    // field.
    function parser(id, event, retry) {
      let line = "";
      let skipsFeed = false;
      let data = "";
      let type = "";

      function field(name, value) {
        if (name === "event") type = value;
        else if (name === "data") data += `${value}\n`;
        else if (name === "id" && StringPrototypeIndexOf(value, "\0") < 0) id = value;
        else if (name === "retry" && RegExpPrototypeExec(DIGITS, value) !== null) retry(NumberParseInt(value, 10));
      }

      function end() {
        const given = data;
        const name = type;
        data = type = "";
        event(name, given === "" ? null : StringPrototypeSlice(given, 0, -1), id);
      }

      function take(line) {
        if (line === "") return end();
        const colon = StringPrototypeIndexOf(line, ":");
        if (colon === 0) return;
        if (colon < 0) return field(line, "");
        const from = line[colon + 1] === " " ? colon + 2 : colon + 1;
        field(StringPrototypeSlice(line, 0, colon), StringPrototypeSlice(line, from));
      }

      return (text) => {
        let start = 0;
        for (let i = 0; i < text.length; i++) {
          const c = StringPrototypeCharCodeAt(text, i);
          if (c !== 10 && c !== 13) {
            skipsFeed = false;
            continue;
          }
          // A line feed after a carriage return belongs to the same line end.
          if (c === 13 || !skipsFeed) {
            const whole = line + StringPrototypeSlice(text, start, i);
            line = "";
            take(whole);
          }
          skipsFeed = c === 13;
          start = i + 1;
        }
        line += StringPrototypeSlice(text, start);
        if (line.length + data.length > MAX_EVENT) throw new RangeError(`EventSource: an event is longer than ${MAX_EVENT} characters`);
      };
    }

    // Encodes a header value: one character for each byte of its UTF-8 form.
    function octets(text) {
      if (RegExpPrototypeExec(ASCII, text) !== null) return text;
      const bytes = internal.encodeUtf8(text);
      let out = "";
      for (let i = 0; i < TypedArrayPrototypeGetByteLength(bytes); i++) out += StringFromCharCode(bytes[i]);
      return out;
    }

    let isEventSource;

    class EventSource extends EventTarget {
      #url;
      #withCredentials;
      #state = CONNECTING;
      #handlers = { __proto__: null, open: null, message: null, error: null };
      #lastEventId = "";
      #pause = PAUSE;
      // The number of failed connections in a row.
      #failures = 0;
      #signal = null;
      #timer = 0;

      static {
        isEventSource = (value) => isObject(value) && #url in value;
        const handle = (type) => {
          eventHandler(EventSource, type, {
            get: (source) => source.#handlers[type],
            set: (source, handler) => {
              source.#handlers[type] = handler;
            },
          });
        };
        handle("open");
        handle("message");
        handle("error");
      }

      constructor(url, init = undefined) {
        needs(arguments.length, 1, "EventSource");
        const input = USVString(url);
        const { withCredentials } = dictionary(init, "EventSource");
        const href = internal.parseUrl(input);
        if (href === null) {
          const { DOMException } = internal.exceptions();
          throw new DOMException(`EventSource: '${input}' is not an absolute URL`, "SyntaxError");
        }
        super();
        this.#url = href;
        this.#withCredentials = !!withCredentials;
        this.#connect();
      }

      get url() {
        return this.#url;
      }
      get withCredentials() {
        return this.#withCredentials;
      }
      get readyState() {
        return this.#state;
      }

      close() {
        this.#state = CLOSED;
        if (this.#timer !== 0) clearTimeout(this.#timer);
        if (this.#signal !== null) abort(this.#signal, undefined);
      }

      #connect() {
        this.#timer = 0;
        // A URL with credentials cannot become a request.
        const attempt = { __proto__: null, hasRequest: false };
        PromisePrototypeThen(this.#stream(attempt), undefined, (error) => {
          // A retry cannot fix these errors.
          const stage = error?.cause?.stage;
          if (!attempt.hasRequest || stage === "policy" || stage === "limit" || stage === "request") this.#fail();
          else this.#again();
        });
      }

      // Reads the events of one connection. Returns a promise that settles when the connection
      // ends.
      async #stream(attempt) {
        const signal = (this.#signal = newSignal());
        const headers = { __proto__: null, accept: "text/event-stream", "cache-control": "no-cache" };
        if (this.#lastEventId !== "") headers["last-event-id"] = octets(this.#lastEventId);
        const request = internal.requestRecord(this.#url, { __proto__: null, headers, signal, cache: "no-store" });
        attempt.hasRequest = true;
        const { status, list, url, body } = await internal.fetch().receive(request);
        const type = internal.headers.lookup(list, "content-type");
        if (this.#state === CLOSED) return;
        if (status !== 200 || type === null || RegExpPrototypeExec(EVENT_STREAM, type) === null) {
          abort(signal, undefined);
          return this.#fail();
        }
        this.#state = OPEN;
        this.#failures = 0;
        deliver(this, new Event("open"));
        const origin = RegExpPrototypeExec(ORIGIN, url)?.[0] ?? "";
        const decoder = new TextDecoder();
        const feed = parser(
          this.#lastEventId,
          (type, data, id) => this.#event(type, data, id, origin),
          (milliseconds) => {
            this.#pause = milliseconds < MIN_PAUSE ? MIN_PAUSE : milliseconds > MAX_PAUSE ? MAX_PAUSE : milliseconds;
          },
        );
        await bodies.drain(bodies.streamOf(body), (piece) => feed(decode(decoder, piece, MORE)));
        this.#again();
      }

      // An event without data is not delivered, but its id counts.
      #event(type, data, lastEventId, origin) {
        if (this.#state === CLOSED) return;
        this.#lastEventId = lastEventId;
        if (data === null) return;
        deliver(this, new MessageEvent(type || "message", { __proto__: null, data, origin, lastEventId }));
      }

      #again() {
        if (this.#state === CLOSED) return;
        this.#state = CONNECTING;
        deliver(this, new Event("error"));
        if (this.#state === CLOSED) return;
        const pause = this.#pause * 2 ** this.#failures;
        if (pause < MAX_PAUSE) this.#failures++;
        try {
          this.#timer = setTimeout(() => this.#connect(), pause < MAX_PAUSE ? pause : MAX_PAUSE);
        } catch {
          // The invocation has ended, or has too many operations in flight.
          this.#fail();
        }
      }

      #fail() {
        if (this.#state === CLOSED) return;
        this.#state = CLOSED;
        deliver(this, new Event("error"));
      }
    }
    expose(EventSource, { __proto__: null, CONNECTING, OPEN, CLOSED });
    internal.describe("EventSource", isEventSource, EventSource, ["url", "withCredentials", "readyState"]);
    return { EventSource };
  });
})
