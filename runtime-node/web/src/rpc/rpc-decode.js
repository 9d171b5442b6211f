// Messages between Workers: the decoding of frames (`rpc-encode.js`).
//
// The peer's built-in JavaScript has encoded the bytes, but nothing here relies on that: every
// length is checked against the bytes of the frame, memory grows only with bytes that have arrived,
// and a malformed frame ends the session.
//: late, after rpc-encode.js rpc-stubs.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototype, BigInt, DataView, DataViewPrototypeGetFloat64, Date, Error, Map, MapPrototypeSet,
    MathMax, MathMin, Object, ObjectDefineProperty, ObjectPrototype, RangeError, RegExp, Set, SetPrototypeAdd,
    StringFromCharCode, StringPrototypeSlice, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;

  internal.later("rpcDecoding", [], () => {
    const { MAX_DEPTH, HEAD, MAX_MESSAGE, MAX_OBJECTS, MAX_REFERENCES, TAGS } = internal.rpcEncoding();
    const { arrayNamed, errorNamed } = internal.cloneKinds();
    const { newStub } = internal.rpcStubs();

    // The initial size of the buffer for a frame that arrives in pieces, in bytes.
    const INITIAL_SIZE = 64 * 1024;

    const malformed = () => {
      throw new RangeError("A message from a Worker is malformed");
    };

    const within = (bytes, from, length) =>
      new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + from, length);

    // Cuts a stream of bytes into frames.
    class Frames {
      // The number of bytes of the frame's length that have arrived, and the length so far.
      head = 0;
      length = 0;
      // The part of a frame that has arrived, or null.
      partial = null;
      filled = 0;

      // Takes the next piece of the stream. Calls `each(frame)` for every complete frame.
      push(piece, each) {
        const size = TypedArrayPrototypeGetByteLength(piece);
        let at = 0;
        while (at < size) {
          if (this.head < HEAD) {
            this.length += piece[at++] * 256 ** this.head++;
            if (this.head < HEAD) continue;
            if (this.length === 0 || this.length > MAX_MESSAGE) malformed();
          }
          const count = MathMin(this.length - this.filled, size - at);
          if (this.partial === null && count === this.length) {
            this.reset();
            each(within(piece, at, count));
          } else {
            this.append(within(piece, at, count), count);
            if (this.filled === this.length) {
              const frame = within(this.partial, 0, this.filled);
              this.reset();
              each(frame);
            }
          }
          at += count;
        }
      }

      append(bytes, count) {
        this.partial ??= new Uint8Array(MathMin(this.length, INITIAL_SIZE));
        const size = TypedArrayPrototypeGetByteLength(this.partial);
        const wanted = this.filled + count;
        if (wanted > size) {
          const larger = new Uint8Array(MathMin(this.length, MathMax(2 * size, wanted)));
          TypedArrayPrototypeSet(larger, within(this.partial, 0, this.filled));
          this.partial = larger;
        }
        TypedArrayPrototypeSet(this.partial, bytes, this.filled);
        this.filled = wanted;
      }

      reset() {
        this.head = this.length = this.filled = 0;
        this.partial = null;
      }
    }

    // Reads the fields and values of a frame.
    class Decoder {
      bytes;
      at = 0;
      end;
      // The session, which refers to the objects that stay with the peer.
      peer;
      // The references that the stubs in the frame hold, in order to dispose of them.
      received = [];
      // The objects by number.
      memory = [];
      depth = 0;

      constructor(bytes, peer) {
        this.bytes = bytes;
        this.end = TypedArrayPrototypeGetByteLength(bytes);
        this.peer = peer;
      }

      byte() {
        if (this.at >= this.end) malformed();
        return this.bytes[this.at++];
      }

      integer() {
        let value = 0, unit = 1;
        for (let i = 0; i < 8; i++) {
          const byte = this.byte();
          value += (byte % 128) * unit;
          if (byte < 128) return value;
          unit *= 128;
        }
        return malformed();
      }

      double() {
        const { bytes } = this;
        const at = TypedArrayPrototypeGetByteOffset(this.take(8));
        return DataViewPrototypeGetFloat64(new DataView(TypedArrayPrototypeGetBuffer(bytes)), at, true);
      }

      // Takes `length` bytes, which belong to the frame.
      take(length) {
        if (length > this.end - this.at) malformed();
        this.at += length;
        return within(this.bytes, this.at - length, length);
      }

      // Reads bytes that only the caller holds.
      raw() {
        return new Uint8Array(this.take(this.integer()));
      }

      string() {
        const size = this.integer();
        const view = this.take((size - (size % 2)) / 2);
        if (size % 2 === 0) return textOf(view);
        const length = TypedArrayPrototypeGetByteLength(view);
        let text = "";
        for (let i = 0; i + 1 < length; i += 2) text += StringFromCharCode(view[i] + 256 * view[i + 1]);
        return text;
      }

      // Reads a list of values.
      list() {
        const count = this.integer();
        const values = [];
        for (let i = 0; i < count; i++) put(values, i, this.value());
        return values;
      }

      keep(object) {
        if (this.memory.length >= MAX_OBJECTS) malformed();
        this.memory[this.memory.length] = object;
        return object;
      }

      value() {
        const tag = this.byte();
        switch (tag) {
          case TAGS.UNDEFINED: return undefined;
          case TAGS.NULL: return null;
          case TAGS.TRUE: return true;
          case TAGS.FALSE: return false;
          case TAGS.INTEGER: {
            const zigzag = this.integer();
            return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
          }
          case TAGS.DOUBLE: return this.double();
          case TAGS.BIGINT: {
            const text = this.string();
            return text[0] === "-" ? -BigInt(`0x${StringPrototypeSlice(text, 1)}`) : BigInt(`0x${text}`);
          }
          case TAGS.STRING: return this.string();
          case TAGS.SEEN: {
            const number = this.integer();
            if (number >= this.memory.length) malformed();
            return this.memory[number];
          }
        }
        if (++this.depth > MAX_DEPTH) malformed();
        const object = this.object(tag);
        this.depth--;
        return object;
      }

      object(tag) {
        switch (tag) {
          case TAGS.OBJECT: {
            const to = this.keep({});
            this.properties(to, ObjectPrototype);
            return to;
          }
          case TAGS.ARRAY: return this.array();
          case TAGS.MAP: {
            const to = this.keep(new Map());
            const count = this.integer();
            for (let i = 0; i < count; i += 2) {
              const key = this.value();
              MapPrototypeSet(to, key, this.value());
            }
            return to;
          }
          case TAGS.SET: {
            const to = this.keep(new Set());
            const count = this.integer();
            for (let i = 0; i < count; i++) SetPrototypeAdd(to, this.value());
            return to;
          }
          case TAGS.DATE: return this.keep(new Date(this.double()));
          case TAGS.REGEXP: {
            const source = this.string();
            return this.keep(new RegExp(source, this.string()));
          }
          case TAGS.ERROR: return this.error();
          case TAGS.EXCEPTION: {
            const name = this.string();
            return this.keep(new (internal.exceptions().DOMException)(this.string(), name));
          }
          case TAGS.WRAPPER: return this.keep(Object(this.value()));
          case TAGS.BUFFER: return this.keep(TypedArrayPrototypeGetBuffer(this.raw()));
          case TAGS.VIEW: return this.view();
          case TAGS.STUB: return this.keep(this.stub());
          default: return internal.rpcBodies().decode(this, tag) ?? malformed();
        }
      }

      // Creates a stub for an object that stays with the peer.
      stub() {
        if (this.received.length >= MAX_REFERENCES) malformed();
        const held = this.peer.import(this.integer());
        this.received[this.received.length] = held;
        return newStub(held);
      }

      properties(to, prototype) {
        const count = this.integer();
        for (let i = 0; i < count; i++) {
          const key = this.string();
          const value = this.value();
          if (key in prototype) define(to, key, value);
          else to[key] = value;
        }
      }

      array() {
        const to = this.keep([]);
        const length = this.integer();
        for (let i = 0; i < length; i++) {
          if (this.at < this.end && this.bytes[this.at] === TAGS.HOLE) {
            this.at++;
            to.length = i + 1;
          } else {
            put(to, i, this.value());
          }
        }
        this.properties(to, ArrayPrototype);
        return to;
      }

      view() {
        const number = this.memory.length;
        this.keep(null);
        const name = this.string();
        const constructor = name === "DataView" ? DataView : arrayNamed(name);
        const offset = this.integer();
        const length = this.integer();
        const buffer = this.value();
        if (typeof constructor !== "function" || !isBuffer(buffer)) malformed();
        return (this.memory[number] = new constructor(buffer, offset, length));
      }

      error() {
        const name = this.string();
        const message = this.string();
        const constructor = errorNamed(name);
        const error = this.keep(new constructor(message));
        if (constructor === Error && name !== "Error") hide(error, "name", name);
        hide(error, "stack", message === "" ? name : `${name}: ${message}`);
        if (this.byte() === 1) hide(error, "cause", this.value());
        return error;
      }
    }

    const define = (to, key, value) =>
      ObjectDefineProperty(to, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    const hide = (to, key, value) =>
      ObjectDefineProperty(to, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
    const put = (to, at, value) => {
      if (at in ArrayPrototype) define(to, at, value);
      else to[at] = value;
    };
    const { ARRAY_BUFFER } = internal.objectKinds;
    const isBuffer = (value) =>
      typeof value === "object" && value !== null && internal.ops.cloneKind(value) === ARRAY_BUFFER;
    // Decodes UTF-8. A byte order mark is part of the string.
    const textOf = (view) =>
      (view[0] === 0xef && view[1] === 0xbb && view[2] === 0xbf ? "\uFEFF" : "") + internal.decodeUtf8(view);

    return { __proto__: null, Decoder, Frames };
  });
})
