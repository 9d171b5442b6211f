// Messages between Workers: their limits, and the encoding of values as bytes.
//
//   frame     length (4 bytes, little-endian), kind of message, fields
//   value     tag, and the content that the tag determines; containers hold further values
//   integer   7 bits per byte, the lowest first; the highest bit says that more follow
//   string    an integer, twice the length in bytes, plus 1 if the bytes are UTF-16 and not UTF-8
//             (only a string with lone surrogates is); then the bytes
//
// A value is anything that structured clone copies, except instances of a Worker's own classes:
// copies would lose their methods. Functions and instances of RpcTarget are not copied: the session
// keeps them, and the message has the number by which the peer calls them (`rpc-session.js`). The
// stacks of errors are not sent.
//
// Objects are numbered in the order in which they are first encountered, so that a later occurrence
// refers to the number. The time and memory that encoding takes are charged to the Worker that
// sends the value.
//: late, after clone-kinds.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferPrototypeGetDetached, BigIntPrototypeToString, DataView, DataViewPrototypeGetBuffer,
    DataViewPrototypeGetByteLength, DataViewPrototypeGetByteOffset, DataViewPrototypeSetFloat64,
    DataViewPrototypeSetUint32, DatePrototypeGetTime, Map, MapPrototypeForEach, MapPrototypeGet, MapPrototypeSet, MathMax,
    MathMin, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectHasOwn, ObjectIs, ObjectKeys, ObjectPrototype,
    RegExpPrototypeGetSource, SetPrototypeForEach, StringPrototypeCharCodeAt, StringPrototypeIsWellFormed, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("rpcEncoding", [], () => {
    const {
      ARRAY, ARRAY_BUFFER, DATA_VIEW, DATE, ERROR, FUNCTION, MAP, PLAIN, PROXY, REGEXP, SET, TYPED_ARRAY, WRAPPER,
    } = internal.objectKinds;

    const TAGS = {
      __proto__: null,
      UNDEFINED: 0, NULL: 1, TRUE: 2, FALSE: 3, INTEGER: 4, DOUBLE: 5, BIGINT: 6, STRING: 7, SEEN: 8, HOLE: 9,
      OBJECT: 10, ARRAY: 11, MAP: 12, SET: 13, DATE: 14, REGEXP: 15, ERROR: 16, EXCEPTION: 17, WRAPPER: 18, BUFFER: 19,
      VIEW: 20, STUB: 21, READABLE: 22, WRITABLE: 23, HEADERS: 24, REQUEST: 25, RESPONSE: 26, BLOB: 27, FILE: 28,
    };

    // Limits of a message: its size in bytes, its number of objects (an object may need more memory
    // than its encoding), and the depth of a value.
    const MAX_MESSAGE = 32 * 1024 * 1024;
    const MAX_OBJECTS = 2 ** 20;
    const MAX_DEPTH = 500;
    // The maximum number of references that one side of a session holds for the other.
    const MAX_REFERENCES = 1000;
    // The size of a frame's length, in bytes.
    const HEAD = 4;
    // The initial size of a writer's buffer, in bytes.
    const INITIAL_SIZE = 256;
    // The maximum length of a string for which ASCII is tried first: twice this length fits into
    // one byte of an integer.
    const MAX_ASCII = 63;

    const { interfaceOf, primitiveOf, refuse } = internal.cloneKinds();
    const refuseValue = (why) => {
      throw new (internal.exceptions().DOMException)(why, "DataCloneError");
    };

    // A frame that is being written.
    class Writer {
      bytes = new Uint8Array(INITIAL_SIZE);
      length = HEAD;

      // Makes room for `count` more bytes.
      reserve(count) {
        const wanted = this.length + count;
        const size = TypedArrayPrototypeGetByteLength(this.bytes);
        if (wanted <= size) return;
        if (wanted > MAX_MESSAGE + HEAD) refuseValue(`A message between Workers is larger than ${MAX_MESSAGE} bytes; send a stream instead`);
        const larger = new Uint8Array(MathMin(MathMax(2 * size, wanted), MAX_MESSAGE + HEAD));
        TypedArrayPrototypeSet(larger, this.bytes);
        this.bytes = larger;
      }

      byte(value) {
        this.reserve(1);
        this.bytes[this.length++] = value;
      }

      integer(value) {
        this.reserve(8);
        while (value > 127) {
          this.bytes[this.length++] = (value % 128) + 128;
          value = (value - (value % 128)) / 128;
        }
        this.bytes[this.length++] = value;
      }

      double(value) {
        this.reserve(8);
        DataViewPrototypeSetFloat64(new DataView(TypedArrayPrototypeGetBuffer(this.bytes)), this.length, value, true);
        this.length += 8;
      }

      raw(bytes) {
        const size = TypedArrayPrototypeGetByteLength(bytes);
        this.integer(size);
        this.reserve(size);
        TypedArrayPrototypeSet(this.bytes, bytes, this.length);
        this.length += size;
      }

      string(text) {
        const { length } = text;
        if (length > MAX_MESSAGE) this.reserve(length);
        if (length <= MAX_ASCII && this.ascii(text, length)) return;
        if (StringPrototypeIsWellFormed(text)) {
          const size = ops.utf8Length(text);
          this.integer(2 * size);
          this.reserve(size);
          ops.utf8Write(text, new Uint8Array(TypedArrayPrototypeGetBuffer(this.bytes), this.length, size));
          this.length += size;
          return;
        }
        this.integer(4 * length + 1);
        this.reserve(2 * length);
        for (let i = 0; i < length; i++) {
          const unit = StringPrototypeCharCodeAt(text, i);
          this.bytes[this.length++] = unit & 255;
          this.bytes[this.length++] = unit >> 8;
        }
      }

      // Writes a short string if it is ASCII. Returns whether it is.
      ascii(text, length) {
        this.reserve(length + 1);
        let at = this.length;
        this.bytes[at++] = 2 * length;
        for (let i = 0; i < length; i++) {
          const unit = StringPrototypeCharCodeAt(text, i);
          if (unit > 127) return false;
          this.bytes[at++] = unit;
        }
        this.length = at;
        return true;
      }

      // Returns the frame.
      finish() {
        const buffer = TypedArrayPrototypeGetBuffer(this.bytes);
        DataViewPrototypeSetUint32(new DataView(buffer), 0, this.length - HEAD, true);
        return new Uint8Array(buffer, 0, this.length);
      }
    }

    // Callbacks need a loop, so that a termination stops them (see clone.js).
    let once = 1;

    // Writes values to a frame.
    class Encoder {
      writer;
      // Keeps the objects that are not copied: `references.add(target)` returns a number.
      references;
      // The numbers of the references that this frame has added.
      added = [];
      // Maps an object to its number.
      memory = new Map();
      count = 0;
      depth = 0;

      constructor(writer, references) {
        this.writer = writer;
        this.references = references;
      }

      value(value) {
        const { writer } = this;
        switch (typeof value) {
          case "undefined": return writer.byte(TAGS.UNDEFINED);
          case "boolean": return writer.byte(value ? TAGS.TRUE : TAGS.FALSE);
          case "number": return this.number(value);
          case "string":
            writer.byte(TAGS.STRING);
            return writer.string(value);
          case "bigint":
            writer.byte(TAGS.BIGINT);
            return writer.string(BigIntPrototypeToString(value, 16));
          case "symbol": return refuse("A symbol");
        }
        if (value === null) return writer.byte(TAGS.NULL);
        const seen = MapPrototypeGet(this.memory, value);
        if (seen !== undefined) {
          writer.byte(TAGS.SEEN);
          return writer.integer(seen);
        }
        MapPrototypeSet(this.memory, value, this.count++);
        if (this.count > MAX_OBJECTS) refuseValue(`A value of more than ${MAX_OBJECTS} objects cannot be sent to a Worker`);
        if (++this.depth > MAX_DEPTH) refuseValue(`A value that is nested more than ${MAX_DEPTH} levels deep cannot be sent to a Worker`);
        this.object(value);
        this.depth--;
      }

      number(value) {
        const integer = value | 0;
        if (ObjectIs(integer, value)) {
          this.writer.byte(TAGS.INTEGER);
          this.writer.integer(integer < 0 ? -2 * integer - 1 : 2 * integer);
        } else {
          this.writer.byte(TAGS.DOUBLE);
          this.writer.double(value);
        }
      }

      object(value) {
        const { writer } = this;
        const kind = ops.cloneKind(value);
        switch (kind) {
          case PLAIN: return this.plain(value);
          case FUNCTION: return this.reference(TAGS.STUB, internal.rpcStubs().exportable(value));
          case ARRAY: return this.array(value);
          case MAP: {
            const items = [];
            MapPrototypeForEach(value, (item, key) => {
              for (let i = 0; i < once; i++) items[items.length] = key;
              items[items.length] = item;
            });
            return this.items(TAGS.MAP, items);
          }
          case SET: {
            const items = [];
            SetPrototypeForEach(value, (item) => {
              for (let i = 0; i < once; i++) items[items.length] = item;
            });
            return this.items(TAGS.SET, items);
          }
          case DATE:
            writer.byte(TAGS.DATE);
            return writer.double(DatePrototypeGetTime(value));
          case REGEXP:
            writer.byte(TAGS.REGEXP);
            writer.string(RegExpPrototypeGetSource(value));
            return writer.string(internal.flagsOf(value));
          case ERROR: return this.error(value);
          case WRAPPER:
            writer.byte(TAGS.WRAPPER);
            return this.value(primitiveOf(value));
          case ARRAY_BUFFER:
            if (ArrayBufferPrototypeGetDetached(value)) refuse("A detached ArrayBuffer");
            writer.byte(TAGS.BUFFER);
            return writer.raw(new Uint8Array(value));
          case TYPED_ARRAY:
            return this.view(TypedArrayPrototypeGetSymbolToStringTag(value), TypedArrayPrototypeGetBuffer(value),
              TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetLength(value));
          case DATA_VIEW:
            return this.view("DataView", DataViewPrototypeGetBuffer(value), DataViewPrototypeGetByteOffset(value),
              DataViewPrototypeGetByteLength(value));
          case PROXY: return refuse("A Proxy");
          default: return refuse(`A ${ops.kindOf(value)}`);
        }
      }

      plain(value) {
        if (value === globalThis) refuse("The global object");
        const prototype = ObjectGetPrototypeOf(value);
        if (prototype !== ObjectPrototype && prototype !== null) return this.instance(value, prototype);
        const { writer } = this;
        const keys = ObjectKeys(value);
        writer.byte(TAGS.OBJECT);
        writer.integer(keys.length);
        for (let i = 0; i < keys.length; i++) {
          writer.string(keys[i]);
          this.value(value[keys[i]]);
        }
      }

      instance(value, prototype) {
        if (internal.rpcStubs().isTarget(value)) return this.reference(TAGS.STUB, value);
        if (internal.rpcBodies().encode(this, value)) return;
        const name = interfaceOf(prototype) ?? ObjectGetOwnPropertyDescriptor(prototype, "constructor")?.value?.name;
        refuseValue(
          `Could not serialize object of type "${typeof name === "string" ? name : "Object"}". This type does not support ` +
            "serialization. Send a plain object, or extend RpcTarget to send it by reference.",
        );
      }

      // Writes a reference to an object that stays in this Worker.
      reference(tag, target) {
        const { added, references, writer } = this;
        const number = references.add(target);
        added[added.length] = number;
        writer.byte(tag);
        writer.integer(number);
      }

      array(value) {
        const { writer } = this;
        const { length } = value;
        writer.byte(TAGS.ARRAY);
        writer.integer(length);
        for (let i = 0; i < length; i++) {
          const item = value[i];
          if (item === undefined && !ObjectHasOwn(value, i)) writer.byte(TAGS.HOLE);
          else this.value(item);
        }
        const names = ops.cloneNames(value) ?? [];
        writer.integer(names.length);
        for (let i = 0; i < names.length; i++) {
          writer.string(names[i]);
          this.value(value[names[i]]);
        }
      }

      items(tag, items) {
        const { writer } = this;
        writer.byte(tag);
        writer.integer(items.length);
        for (let i = 0; i < items.length; i++) this.value(items[i]);
      }

      view(name, buffer, offset, length) {
        const { writer } = this;
        writer.byte(TAGS.VIEW);
        writer.string(name);
        writer.integer(offset);
        writer.integer(length);
        this.value(buffer);
      }

      error(value) {
        const { writer } = this;
        const parts = internal.domExceptionParts(value);
        if (parts !== null) {
          writer.byte(TAGS.EXCEPTION);
          writer.string(parts.name);
          return writer.string(parts.message);
        }
        const { name, message } = value;
        writer.byte(TAGS.ERROR);
        writer.string(name === undefined ? "Error" : `${name}`);
        writer.string(message === undefined ? "" : `${message}`);
        const hasCause = ObjectHasOwn(value, "cause");
        writer.byte(hasCause ? 1 : 0);
        if (hasCause) this.value(value.cause);
      }
    }

    // Returns a frame of a message. `fields(writer)` writes the fields, and then `values(encoder)`
    // the values, if there are any. If the values cannot be sent, nothing that was added to the
    // references stays there.
    const frame = (kind, references, fields, values) => {
      const writer = new Writer();
      writer.byte(kind);
      fields(writer);
      if (values !== null) {
        const encoder = new Encoder(writer, references);
        try {
          values(encoder);
        } catch (error) {
          for (let i = 0; i < encoder.added.length; i++) references.remove(encoder.added[i]);
          throw error;
        }
      }
      return writer.finish();
    };

    const isSendableError = (error) => isObject(error) && ops.cloneKind(error) === ERROR;
    // Returns an error that stands for a thrown value that cannot be sent.
    const standIn = (thrown) => new TypeError(
      isSendableError(thrown) ? "The Worker threw an error that cannot be sent" : "The Worker threw a value that cannot be sent",
    );
    return { __proto__: null, MAX_DEPTH, HEAD, MAX_MESSAGE, MAX_OBJECTS, MAX_REFERENCES, TAGS, frame, refuseValue, standIn };
  });
})
