// Bodies (Fetch §5.2, §5.3): conversion of values to bodies, and the Body mixin of Request and
// Response.
//
// A body is a record {source, type, used, shared, stream}. The source is one of
//   - a well-formed string, which can be encoded as UTF-8;
//   - a Uint8Array;
//   - a native stream {owner, number, signal}: bytes that arrive in native code and can be
//     forwarded there (`ops.stream…`) until the signal, if any, is aborted;
//   - null, if the only source is the ReadableStream `stream`.
// `stream` is created from the source on demand. Until the stream is read, the source remains
// valid. `shared` means that a clone holds the same source, so its buffer must not be handed out.
//
// Later files extend bodies: each of `internal.body.initializers` may convert an object that is not
// a URLSearchParams to a body, or return null, and `internal.body.mixins` lists the classes that
// have a body, for methods such as `blob`.
//: eager, after headers.js streams.js url.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferPrototypeGetByteLength, ArrayBufferIsView, ObjectDefineProperties,
    ObjectGetOwnPropertyDescriptors, PromisePrototypeThen, PromiseWithResolvers, StringPrototypeSlice,
    SymbolAsyncIterator, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetSymbolToStringTag,
    TypedArrayPrototypeSet, Uint8Array, WeakMap, WeakMapPrototypeGet, WeakMapPrototypeSet,
  } = internal.primordials;
  const { USVString, bufferSource } = internal.webidl;
  const { ops } = internal;

  const body = (source, type) => ({ source, type, used: false, shared: false, stream: null });

  const native = (owner, number, signal = null) => ({ __proto__: null, owner, number, signal });
  const isNative = (source) => typeof source === "object" && source !== null && !ArrayBufferIsView(source);

  const initializers = [];

  // The files of streams replace these two functions.
  internal.isReadableStream = () => false;
  internal.isWritableStream = () => false;

  // Maps a ReadableStream to the body that it was created from, so that the body can be recovered.
  const origins = new WeakMap();

  // Maps a ReadableStream to the number of bytes that it declares, if it declares one.
  const lengths = new WeakMap();

  // Appends Content-Length to a header list if the length of the stream is known and the list has
  // no Content-Length.
  function declareLength(list, stream) {
    const length = WeakMapPrototypeGet(lengths, stream);
    if (length === undefined || internal.headers.lookup(list, "content-length") !== null) return;
    list[list.length] = "content-length";
    list[list.length] = `${length}`;
  }

  // Returns the body for a BodyInit that is not null.
  function extract(init) {
    if (typeof init === "string") return body(USVString(init), "text/plain;charset=UTF-8");
    if (typeof init === "object" && init !== null) {
      if (internal.isURLSearchParams(init)) {
        return body(internal.serializeURLSearchParams(init), "application/x-www-form-urlencoded;charset=UTF-8");
      }
      for (let i = 0; i < initializers.length; i++) {
        const made = initializers[i](init);
        if (made !== null) return made;
      }
      const view = bufferSource(init);
      // The bytes are copied, because the Worker may write to its buffer later.
      if (view !== null) return body(new Uint8Array(view), null);
      if (internal.isReadableStream(init)) {
        const streams = internal.streams();
        if (streams.isDisturbed(init) || streams.isLocked(init)) {
          throw new TypeError("A stream that has been read, or is being read, cannot become a body");
        }
        const made = body(null, null);
        made.stream = init;
        return made;
      }
      // As in Node.js and Cloudflare Workers, an asynchronous iterable is a stream of bytes.
      const iterate = init[SymbolAsyncIterator];
      if (iterate !== undefined && iterate !== null) {
        const made = body(null, null);
        made.stream = internal.streamsReadableApi().wrap(internal.streamsIterate().from(init));
        return made;
      }
    }
    return body(USVString(init), "text/plain;charset=UTF-8");
  }

  const isUsed = (body) => body.used || (body.stream !== null && internal.streams().isDisturbed(body.stream));

  // Takes the source out of a body, which can be read only once. Null means that the caller must
  // read the body's stream.
  function take(body) {
    const { stream } = body;
    if (body.used) throw new TypeError("The body has already been used");
    if (stream !== null) {
      const streams = internal.streams();
      if (streams.isDisturbed(stream)) throw new TypeError("The body has already been used");
      if (streams.isLocked(stream)) throw new TypeError("The body's stream is locked to a reader");
      const origin = WeakMapPrototypeGet(origins, stream);
      // The stream is unread, and `acquire` locks it against other readers.
      if (origin !== undefined && !origin.used) {
        streams.acquire(stream);
        body.used = origin.used = true;
        body.shared ||= origin.shared;
        return origin.source;
      }
      body.used = true;
      return null;
    }
    body.used = true;
    return body.source;
  }

  // Moves a body into a new record. The original then counts as used.
  function move(from) {
    const source = take(from);
    const { type, shared } = from;
    return { source, type, used: false, shared, stream: source === null ? passThrough(from.stream) : null };
  }

  // Returns a stream of the chunks of `stream`, which remains locked.
  function passThrough(stream) {
    const streams = internal.streams();
    const reader = streams.acquire(stream);
    return streams.newReadable({
      __proto__: null,
      highWaterMark: 0,
      pull: (controller) =>
        PromisePrototypeThen(streams.readChunk(reader), (chunk) => {
          if (chunk.done) streams.close(controller);
          else streams.enqueue(controller, chunk.value);
        }),
      cancel: (reason) => streams.cancel(stream, reason),
    });
  }

  // Returns the ReadableStream of a body.
  function streamOf(body) {
    if (body.stream !== null) return body.stream;
    const streams = internal.streams();
    const { source, used } = body;
    const stream = streams.newReadable({
      __proto__: null,
      type: "bytes",
      highWaterMark: 0,
      start(controller) {
        if (used) streams.close(controller);
      },
      pull(controller) {
        if (isNative(source)) return pullNative(streams, controller, source);
        const bytes = own(source, body.shared);
        if (TypedArrayPrototypeGetByteLength(bytes) > 0) streams.enqueue(controller, bytes);
        streams.close(controller);
      },
      cancel() {
        if (isNative(source)) ops.streamCancel(source.owner, source.number);
      },
    });
    body.stream = stream;
    if (used) streams.acquire(stream);
    else WeakMapPrototypeSet(origins, stream, body);
    return stream;
  }

  function pullNative(streams, controller, source) {
    const deliver = (piece) => {
      if (piece === null) streams.close(controller);
      else streams.enqueue(controller, piece);
    };
    const fail = (error) => {
      throw breakReason(source, error);
    };
    try {
      /** @type {any} */
      const piece = ops.streamPull(source.owner, source.number);
      if (piece === null || ArrayBufferIsView(piece)) return deliver(piece);
      return PromisePrototypeThen(piece, deliver, fail);
    } catch (error) {
      fail(error);
    }
  }

  // Returns the signal's reason if the signal aborted the stream, otherwise `error`.
  function breakReason({ signal }, error) {
    if (signal === null) return error;
    const { abortReason, isAborted } = internal.abort();
    return isAborted(signal) ? abortReason(signal) : error;
  }

  // Clones a body, or null. If the body has no stream yet and its source is a string or bytes, the
  // clone shares the source. Otherwise, the body and the clone become the branches of a tee.
  function clone(body) {
    if (body === null) return null;
    if (isUsed(body)) throw new TypeError("A body that has been used cannot be cloned");
    const { source, type } = body;
    if (body.stream === null && !isNative(source)) {
      body.shared = true;
      return { source, type, used: false, shared: true, stream: null };
    }
    const streams = internal.streams();
    const stream = streamOf(body);
    if (streams.isLocked(stream)) throw new TypeError("A body whose stream is locked cannot be cloned");
    const { first, second } = streams.tee(stream);
    body.source = null;
    body.stream = first;
    return { source: null, type, used: false, shared: false, stream: second };
  }

  // Returns bytes that only the caller holds.
  function own(source, shared) {
    if (typeof source === "string") return internal.encodeUtf8(source);
    const whole = TypedArrayPrototypeGetByteLength(source) ===
      ArrayBufferPrototypeGetByteLength(TypedArrayPrototypeGetBuffer(source));
    return shared || !whole ? new Uint8Array(source) : source;
  }

  // Reads a ReadableStream of bytes. `each(piece)` may return a promise, which delays the next
  // read. Returns a promise that settles when the stream ends.
  function drain(stream, each) {
    const streams = internal.streams();
    const reader = streams.acquire(stream);
    const { promise, resolve, reject } = PromiseWithResolvers();
    const leave = (error) => {
      PromisePrototypeThen(streams.cancel(stream, error), undefined, () => {});
      reject(error);
    };
    // Chunks that are already queued are delivered synchronously within `read`. A loop issues the
    // next read, so that the stack does not grow.
    let reads = false;
    let wants = false;
    const next = () => {
      wants = true;
      if (reads) return;
      reads = true;
      while (wants) {
        wants = false;
        streams.read(reader, request);
      }
      reads = false;
    };
    const request = {
      __proto__: null,
      chunk(piece) {
        try {
          if (TypedArrayPrototypeGetSymbolToStringTag(piece) !== "Uint8Array") {
            throw new TypeError("A body's stream yielded a value that is not a Uint8Array");
          }
          const wait = each(piece);
          if (wait === undefined) next();
          else PromisePrototypeThen(wait, next, leave);
        } catch (error) {
          leave(error);
        }
      },
      close: resolve,
      error: reject,
    };
    next();
    return promise;
  }

  async function collect(stream) {
    const pieces = [];
    let length = 0;
    await drain(stream, (piece) => {
      pieces[pieces.length] = piece;
      length += TypedArrayPrototypeGetByteLength(piece);
    });
    if (pieces.length === 1) return own(pieces[0], false);
    const all = new Uint8Array(length);
    let at = 0;
    for (let i = 0; i < pieces.length; i++) {
      TypedArrayPrototypeSet(all, pieces[i], at);
      at += TypedArrayPrototypeGetByteLength(pieces[i]);
    }
    return all;
  }

  // Returns a string, or bytes that only the caller holds.
  async function read(body) {
    if (body === null) return "";
    const source = take(body);
    if (source === null) return await collect(body.stream);
    if (typeof source === "string") return source;
    if (ArrayBufferIsView(source)) return own(source, body.shared);
    try {
      return await ops.streamRead(source.owner, source.number);
    } catch (error) {
      throw breakReason(source, error);
    }
  }

  async function readBytes(body) {
    const content = await read(body);
    return typeof content === "string" ? internal.encodeUtf8(content) : content;
  }

  // Returns the text of a short body that has arrived in full; null for any other body. The text is
  // copied once, and no promise is created.
  function takeShortText(body) {
    if (body === null || body.used || body.stream !== null) return null;
    const { source } = body;
    if (!isNative(source) || source.signal !== null) return null;
    const text = ops.streamText(source.owner, source.number);
    body.used = text !== null;
    return text;
  }

  async function readText(body) {
    const content = await read(body);
    if (typeof content !== "string") return internal.decodeUtf8(content);
    return content[0] === "\uFEFF" ? StringPrototypeSlice(content, 1) : content;
  }

  // Returns a stream of the body's text.
  function readTextStream(body) {
    const streams = internal.streams();
    if (body === null) {
      const algorithms = { __proto__: null, start: (controller) => streams.close(controller) };
      return streams.newReadable(algorithms);
    }
    if (isUsed(body)) throw new TypeError("The body has already been used");
    const stream = streamOf(body);
    if (streams.isLocked(stream)) throw new TypeError("The body's stream is locked to a reader");
    return streams.decoded(stream);
  }

  const mixins = [];

  // Adds the Body mixin to a class. `bodyOf(object)` checks the brand and returns the body or null.
  function mixin(constructor, bodyOf) {
    mixins[mixins.length] = { constructor, bodyOf };
    // `return await`: resolving with a returned promise would read `then`, which a Worker may
    // replace.
    const members = {
      get body() {
        const body = bodyOf(this);
        return body === null ? null : streamOf(body);
      },
      get bodyUsed() {
        const body = bodyOf(this);
        return body !== null && isUsed(body);
      },
      async arrayBuffer() {
        return TypedArrayPrototypeGetBuffer(await readBytes(bodyOf(this)));
      },
      async bytes() {
        return await readBytes(bodyOf(this));
      },
      async json() {
        const body = bodyOf(this);
        return internal.parseJSON(takeShortText(body) ?? (await readText(body)));
      },
      async text() {
        const body = bodyOf(this);
        return takeShortText(body) ?? (await readText(body));
      },
      textStream() {
        return readTextStream(bodyOf(this));
      },
    };
    ObjectDefineProperties(constructor.prototype, ObjectGetOwnPropertyDescriptors(members));
  }

  // Pipes a ReadableStream of bytes into a native stream of the invocation `owner`. `over` is a
  // promise that settles when the writing ends; `leave(reason)` cancels the stream.
  function pipeOf(stream, owner) {
    const number = ops.pipeOpen(owner);
    let left = false;
    const leave = (reason) => {
      left = true;
      internal.streams().cancel(stream, reason);
    };
    const write = async () => {
      try {
        await drain(stream, (piece) => ops.pipeWrite(owner, number, piece));
        ops.pipeClose(owner, number);
      } catch (error) {
        ops.pipeAbort(owner, number);
        if (!left) throw error;
      }
    };
    return { __proto__: null, owner, number, over: write(), leave };
  }

  // Converts a body that has been taken (`take`) for native code: {content, owner, number, pipe}.
  // The content is a string, a view, null, or undefined for the native stream {owner, number},
  // which `pipe` fills if the source is a ReadableStream.
  function outgoing(source, stream) {
    if (stream !== null && source === null) {
      const pipe = pipeOf(stream, ops.invocationNow());
      return { __proto__: null, content: undefined, owner: pipe.owner, number: pipe.number, pipe };
    }
    if (isNative(source)) {
      return { __proto__: null, content: undefined, owner: source.owner, number: source.number, pipe: null };
    }
    return { __proto__: null, content: source, owner: 0, number: 0, pipe: null };
  }

  internal.body = {
    __proto__: null, of: body, native, isNative, isUsed, extract, take, move, clone, streamOf, readBytes, readText, drain,
    pipeOf, outgoing, lengths, declareLength, mixin, mixins, initializers,
  };
})
