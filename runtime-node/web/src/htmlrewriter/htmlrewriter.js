// HTMLRewriter of Cloudflare Workers: changes the HTML of a response while it streams.
//
//   source ─► read ─► native parser ─► handlers, one after another ─► pull ─► reader
//
// Native code decides what comes next (`rewriter.rs` in tenon-html); each pull of the new body's
// reader performs these steps until there is output. If a handler returns a promise, the following
// steps wait for it.
//: late, after htmlrewriter-tokens.js stores.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, FinalizationRegistry, FinalizationRegistryPrototypeRegister,
    FinalizationRegistryPrototypeUnregister, Map, MapPrototypeDelete, MapPrototypeForEach, MapPrototypeGet, MapPrototypeSet,
    PromisePrototypeThen, ReflectApply, TypeError, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;
  const { DOMString, dictionary, expose, isObject, needs } = internal.webidl;
  const { body: bodies, mime, ops } = internal;

  internal.later("htmlRewriter", ["HTMLRewriter"], () => {
    const streams = internal.streams();
    const stores = internal.stores();
    const tokens = internal.htmlRewriterTokens();
    const { callback } = internal.streamsBase();

    // The kinds of steps of `rewriterNext`, except the last one: 9, the end of the document.
    const INPUT = 0, OUTPUT = 1, DONE = 2, STREAM = 3, ELEMENT = 4, END_TAG = 5, COMMENT = 6, TEXT = 7, DOCTYPE = 8;
    // The kinds of handlers. `onDocument` has handlers of the document type in place of elements.
    const ELEMENTS = 1, COMMENTS = 2, TEXTS = 4, ENDS = 8;

    const nothing = () => {};
    const isThenable = (value) => isObject(value) && typeof value.then === "function";
    const cancel = (stream, reason) => PromisePrototypeThen(streams.cancel(stream, reason), undefined, nothing);

    // A registry that closes the native rewriter of a body that is collected before its end. It is
    // created on first use, because a snapshot cannot contain a FinalizationRegistry.
    let registry;

    // A stream of bytes that native code consumes piece by piece.
    class Source {
      stream;
      reader;
      // The current chunk, or null, and the position of its unread part.
      bytes = null;
      at = 0;
      constructor(stream) {
        this.stream = stream;
        this.reader = streams.acquire(stream);
      }

      // Reads the next chunk. Returns false at the end of the stream.
      async read() {
        const { done, value } = await streams.readChunk(this.reader);
        if (done) return false;
        if (TypedArrayPrototypeGetSymbolToStringTag(value) !== "Uint8Array") {
          throw new TypeError("HTMLRewriter: a stream yielded a value that is not a Uint8Array");
        }
        this.bytes = value;
        this.at = 0;
        return true;
      }

      // Skips this many bytes of the chunk.
      advance(count) {
        this.at += count;
        if (this.at >= TypedArrayPrototypeGetByteLength(this.bytes)) this.bytes = null;
      }
    }

    class Rewriting {
      // The number of the native rewriter; 0 once it is closed.
      number;
      // The current token, which its handler may use; null between handlers.
      token = null;
      source;
      ended = false;
      registrations;
      // Maps the number of an element to the handler of its end tag, and that of an inserted stream
      // to its source.
      ends = new Map();
      inserted = new Map();
      lastInserted = 0;
      // Handlers see what the AsyncLocalStorages contained when `transform` was called.
      stores = stores.current();

      constructor(number, registrations, stream) {
        this.number = number;
        this.registrations = registrations;
        this.source = new Source(stream);
        registry ??= new FinalizationRegistry((number) => ops.rewriterClose(number));
        FinalizationRegistryPrototypeRegister(registry, this, number, this);
      }

      // ---- Calls by tokens

      onEnd(element, handler) {
        MapPrototypeSet(this.ends, element, handler);
      }

      // Keeps a stream until its place in the output is reached. Returns its number.
      keep(stream) {
        MapPrototypeSet(this.inserted, ++this.lastInserted, new Source(stream));
        return this.lastInserted;
      }

      // ---- The new body

      // Performs the next steps, until there is output for the reader.
      async pull(controller) {
        try {
          while (!(await this.steps(controller)));
        } catch (error) {
          this.close(error);
          throw error;
        }
      }

      // Performs steps until there is output, the body has ended or has been canceled, or a promise
      // has to be awaited. Returns false if more steps are needed before the reader gets something,
      // or a promise of the result.
      steps(controller) {
        for (;;) {
          // A handler may have canceled the body.
          if (this.number === 0) return true;
          const step = ops.rewriterNext(this.number);
          const kind = step % 16;
          const id = (step - kind) / 16;
          if (kind === OUTPUT) return this.passOutput(controller);
          if (kind === DONE) return this.finish(controller);
          if (kind === INPUT) {
            const { source } = this;
            if (source.bytes === null) return this.passOutput(controller) || this.input();
            source.advance(ops.rewriterFeed(this.number, source.bytes, source.at));
          } else if (kind === STREAM) {
            const source = MapPrototypeGet(this.inserted, id);
            if (source.bytes === null) return this.passOutput(controller) || this.insert(source, id);
            source.advance(ops.rewriterInsertBytes(this.number, source.bytes, source.at));
          } else {
            const result = this.handle(kind, id);
            // Output that is ready is not delayed by a handler that waits.
            if (isThenable(result)) return this.settled(result, ops.isPending(result) && this.passOutput(controller));
            this.token = null;
          }
        }
      }

      // Passes the output on. Returns whether there was any.
      passOutput(controller) {
        const piece = ops.rewriterTake(this.number);
        if (piece === undefined) return false;
        streams.enqueue(controller, piece);
        return true;
      }

      finish(controller) {
        this.passOutput(controller);
        this.close(undefined);
        streams.close(controller);
        return true;
      }

      async input() {
        if (await this.source.read()) return false;
        this.ended = true;
        if (this.number !== 0) ops.rewriterEnd(this.number);
        return false;
      }

      async insert(source, id) {
        if (await source.read()) return false;
        MapPrototypeDelete(this.inserted, id);
        if (this.number !== 0) ops.rewriterEndStream(this.number);
        return false;
      }

      // Awaits the end of a handler.
      async settled(result, hasPassedOutput) {
        await result;
        this.token = null;
        return hasPassedOutput;
      }

      // Calls a handler with a token. Returns its result.
      handle(kind, id) {
        if (kind === END_TAG) {
          const handler = MapPrototypeGet(this.ends, id);
          MapPrototypeDelete(this.ends, id);
          return this.call(handler, undefined, tokens.endTag(this));
        }
        const { self, element, comments, text, doctype, end } = this.registrations[id];
        if (kind === ELEMENT) return this.call(element, self, tokens.element(this));
        if (kind === COMMENT) return this.call(comments, self, tokens.comment(this));
        if (kind === TEXT) return this.call(text, self, tokens.text(this));
        if (kind === DOCTYPE) return this.call(doctype, self, tokens.doctype(this));
        return this.call(end, self, tokens.documentEnd(this));
      }

      call(handler, self, token) {
        this.token = token;
        return stores.within(this.stores, () => ReflectApply(handler, self, [token]));
      }

      // Drops the native rewriter, and cancels all streams that have not been read to their end.
      close(reason) {
        if (this.number === 0) return;
        ops.rewriterClose(this.number);
        FinalizationRegistryPrototypeUnregister(registry, this);
        this.number = 0;
        this.token = null;
        if (!this.ended) cancel(this.source.stream, reason);
        MapPrototypeForEach(this.inserted, ({ stream }) => cancel(stream, reason));
      }
    }

    let isRewriter;

    class HTMLRewriter {
      // The handlers of each call of `on` and `onDocument`, and the list for native code: the
      // selector or null, and the kinds of handlers.
      #registrations = [];
      #list = [];

      static {
        isRewriter = (value) => isObject(value) && #list in value;
      }

      #register(selector, kinds, registration) {
        ArrayPrototypePush(this.#registrations, registration);
        ArrayPrototypePush(this.#list, selector);
        ArrayPrototypePush(this.#list, kinds);
        return this;
      }

      on(selector, handlers) {
        this.#list; // a brand check
        needs(arguments.length, 2, "HTMLRewriter.on");
        const selected = DOMString(selector);
        ops.rewriterSelector(selected);
        const given = dictionary(handlers, "HTMLRewriter.on");
        const element = callback(given.element, "HTMLRewriter.on: element");
        const comments = callback(given.comments, "HTMLRewriter.on: comments");
        const text = callback(given.text, "HTMLRewriter.on: text");
        const kinds = (element && ELEMENTS) | (comments && COMMENTS) | (text && TEXTS);
        return this.#register(selected, kinds, { __proto__: null, self: given, element, comments, text, doctype: null, end: null });
      }

      onDocument(handlers) {
        this.#list; // a brand check
        needs(arguments.length, 1, "HTMLRewriter.onDocument");
        const given = dictionary(handlers, "HTMLRewriter.onDocument");
        const doctype = callback(given.doctype, "HTMLRewriter.onDocument: doctype");
        const comments = callback(given.comments, "HTMLRewriter.onDocument: comments");
        const text = callback(given.text, "HTMLRewriter.onDocument: text");
        const end = callback(given.end, "HTMLRewriter.onDocument: end");
        const kinds = (doctype && ELEMENTS) | (comments && COMMENTS) | (text && TEXTS) | (end && ENDS);
        return this.#register(null, kinds, { __proto__: null, self: given, element: null, comments, text, doctype, end });
      }

      transform(response) {
        const list = this.#list;
        needs(arguments.length, 1, "HTMLRewriter.transform");
        if (!internal.isResponse(response)) throw new TypeError("HTMLRewriter.transform: the argument is not a Response");
        const original = internal.responseRecord(response);
        if (original.type === "error") throw new TypeError("HTMLRewriter.transform: the argument is Response.error()");
        if (original.body === null) return response;
        const type = mime.extract(original.list);
        const charset = type === null ? null : mime.parameter(type, "charset");
        const number = ops.rewriterOpen(list, charset ?? "utf-8");
        const registrations = [];
        for (let i = 0; i < this.#registrations.length; i++) ArrayPrototypePush(registrations, this.#registrations[i]);
        let rewriting;
        try {
          rewriting = new Rewriting(number, registrations, bodies.streamOf(bodies.move(original.body)));
        } catch (error) {
          ops.rewriterClose(number);
          throw error;
        }
        const body = bodies.of(null, null);
        body.stream = streams.newReadable({
          __proto__: null,
          type: "bytes",
          highWaterMark: 0,
          pull: (controller) => rewriting.pull(controller),
          cancel: (reason) => rewriting.close(reason),
        });
        return internal.responseWith(original, body);
      }
    }
    expose(HTMLRewriter);
    internal.describe("HTMLRewriter", isRewriter, HTMLRewriter, []);
    return { HTMLRewriter };
  });
})
