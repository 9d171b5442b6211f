// Bodies (Fetch §5.2, §5.3): what can become one, and how a Request or a Response gives its own away.
//
// A body is a record {source, type, used, shared}. The source is a string (well-formed, so that it can be written
// as UTF-8 by whoever sends it), a Uint8Array, or a function that returns a promise of one when the bytes are still
// to come. `shared` means that a clone holds the same source, so its buffer must not be handed out.
//
// Later standards plug in here: `internal.body.initialisers` is asked in turn about values that are none of the
// above, and `internal.body.mixins` lists the classes that have a body, for methods such as `blob`.
(function (internal) {
  "use strict";

  const {
    ArrayBufferPrototypeGetByteLength, JSONParse, ObjectDefineProperties, ObjectGetOwnPropertyDescriptors,
    StringPrototypeSlice, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, Uint8Array,
  } = internal.primordials;
  const { USVString, bufferSource } = internal.webidl;

  const body = (source, type) => ({ source, type, used: false, shared: false });

  const initialisers = [];

  // The body of a BodyInit that is not null.
  function extract(init) {
    if (typeof init === "string") return body(USVString(init), "text/plain;charset=UTF-8");
    if (typeof init === "object" && init !== null) {
      if (internal.isURLSearchParams(init)) {
        return body(internal.serializeURLSearchParams(init), "application/x-www-form-urlencoded;charset=UTF-8");
      }
      for (let i = 0; i < initialisers.length; i++) {
        const made = initialisers[i](init);
        if (made !== null) return made;
      }
      const view = bufferSource(init);
      // A copy: the tenant may go on writing to theirs.
      if (view !== null) return body(new Uint8Array(view), null);
    }
    return body(USVString(init), "text/plain;charset=UTF-8");
  }

  // Takes the source out of a body: a body is read once.
  function take(body) {
    if (body.used) throw new TypeError("The body has already been used");
    body.used = true;
    return body.source;
  }

  // The body of a clone.
  function clone(body) {
    if (body === null) return null;
    if (body.used) throw new TypeError("A body that has been used cannot be cloned");
    if (typeof body.source === "function") {
      const read = body.source;
      let bytes;
      body.source = () => (bytes ??= read());
    }
    body.shared = true;
    return { source: body.source, type: body.type, used: false, shared: true };
  }

  // Bytes that belong to the caller alone.
  function own(source, shared) {
    if (typeof source === "string") return internal.encodeUtf8(source);
    const whole = TypedArrayPrototypeGetByteLength(source) ===
      ArrayBufferPrototypeGetByteLength(TypedArrayPrototypeGetBuffer(source));
    return shared || !whole ? new Uint8Array(source) : source;
  }

  async function readBytes(body) {
    if (body === null) return new Uint8Array(0);
    const source = take(body);
    return own(typeof source === "function" ? await source() : source, body.shared);
  }

  async function readText(body) {
    if (body === null) return "";
    const source = take(body);
    if (typeof source !== "string") {
      return internal.decodeUtf8(typeof source === "function" ? await source() : source);
    }
    return source[0] === "\uFEFF" ? StringPrototypeSlice(source, 1) : source;
  }

  const mixins = [];

  // Gives a class the Body mixin. `bodyOf(object)` checks the brand and returns the body or null.
  function mixin(constructor, bodyOf) {
    mixins[mixins.length] = { constructor, bodyOf };
    // `return await`, because a promise that is returned is resolved by its `then`, which a Worker may replace.
    const members = {
      get bodyUsed() {
        return bodyOf(this)?.used ?? false;
      },
      async arrayBuffer() {
        return TypedArrayPrototypeGetBuffer(await readBytes(bodyOf(this)));
      },
      async bytes() {
        return await readBytes(bodyOf(this));
      },
      async json() {
        return JSONParse(await readText(bodyOf(this)));
      },
      async text() {
        return await readText(bodyOf(this));
      },
    };
    ObjectDefineProperties(constructor.prototype, ObjectGetOwnPropertyDescriptors(members));
  }

  internal.body = { __proto__: null, of: body, extract, take, clone, mixin, mixins, initialisers };
})
