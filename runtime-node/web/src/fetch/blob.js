// Blob and File (File API §3, §4): immutable bytes. Slices of a Blob share its memory, which is
// never exposed to a Worker.
//: late, after body.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayPrototypePush, DateNow, MathMax, MathMin, RangeError, RegExpPrototypeExec,
    StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeToLowerCase, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { DOMString, USVString, bufferSource, clamped, dictionary, enumeration, expose, isObject, longLong, needs, sequence } =
    internal.webidl;
  const { describe, ops } = internal;

  internal.later("blobs", ["Blob", "File"], () => {
    const CREATE = { __proto__: null };
    // The size of a stream's chunks, in bytes.
    const CHUNK = 64 * 1024;
    // The maximum size of a Blob, in bytes. A Worker's memory limit is lower.
    const MAX_SIZE = 2 ** 32;
    const UNPRINTABLE = /[^\x20-\x7e]/;

    const normalType = (type) => (RegExpPrototypeExec(UNPRINTABLE, type) === null ? StringPrototypeToLowerCase(type) : "");

    // ---- Parts

    const part = (item) => {
      if (isObject(item) && (isBlob(item) || ArrayBufferIsView(item) || bufferSource(item) !== null)) return item;
      return USVString(item);
    };

    // Converts line endings to the native line ending, "\n".
    function nativeEndings(string) {
      let out = "";
      let from = 0;
      for (let at = StringPrototypeIndexOf(string, "\r"); at >= 0; at = StringPrototypeIndexOf(string, "\r", from)) {
        out += `${StringPrototypeSlice(string, from, at)}\n`;
        from = at + (string[at + 1] === "\n" ? 2 : 1);
      }
      return from === 0 ? string : out + StringPrototypeSlice(string, from);
    }

    // Returns the concatenated bytes of all parts.
    function gather(parts, endings) {
      const sizes = [];
      let total = 0;
      for (let i = 0; i < parts.length; i++) {
        const item = parts[i];
        if (typeof item === "string") {
          if (endings === "native") parts[i] = nativeEndings(item);
          ArrayPrototypePush(sizes, ops.utf8Length(parts[i]));
        } else {
          parts[i] = isBlob(item) ? bytesOf(item) : bufferSource(item);
          ArrayPrototypePush(sizes, TypedArrayPrototypeGetByteLength(parts[i]));
        }
        total += sizes[i];
      }
      if (total > MAX_SIZE) throw new RangeError(`A Blob of ${total} bytes is too large`);
      const bytes = new Uint8Array(total);
      const buffer = TypedArrayPrototypeGetBuffer(bytes);
      let at = 0;
      for (let i = 0; i < parts.length; i++) {
        if (typeof parts[i] === "string") ops.utf8Write(parts[i], new Uint8Array(buffer, at, sizes[i]));
        else TypedArrayPrototypeSet(bytes, parts[i], at);
        at += sizes[i];
      }
      return bytes;
    }

    // Converts the arguments of `new Blob` and `new File`. `between` converts the arguments between
    // the parts and the options; `after` converts the other options.
    function construct(blobParts, options, what, between, after) {
      const parts = blobParts === undefined ? [] : sequence(blobParts, part, what);
      between();
      const bag = dictionary(options, what);
      const { endings } = bag;
      const ending = endings === undefined ? "transparent" : enumeration(endings, ["transparent", "native"], `${what}: endings`);
      const { type } = bag;
      const normal = type === undefined ? "" : normalType(DOMString(type));
      after(bag);
      return { __proto__: null, bytes: gather(parts, ending), type: normal };
    }
    const nothing = () => {};

    // Returns a ReadableStream of a Blob's bytes.
    function streamOf(bytes) {
      const { close, enqueue, newReadable } = internal.streams();
      const size = TypedArrayPrototypeGetByteLength(bytes);
      let at = 0;
      return newReadable({
        __proto__: null,
        type: "bytes",
        highWaterMark: 0,
        pull(controller) {
          const from = TypedArrayPrototypeGetByteOffset(bytes) + at;
          const chunk = new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), from, MathMin(CHUNK, size - at));
          at += TypedArrayPrototypeGetByteLength(chunk);
          if (TypedArrayPrototypeGetByteLength(chunk) > 0) enqueue(controller, new Uint8Array(chunk));
          if (at >= size) close(controller);
        },
      });
    }

    // ---- Interfaces

    let isBlob;
    let isFile;
    let bytesOf;
    let typeOf;
    let nameOf;
    let modifiedOf;

    class Blob {
      // A Uint8Array to whose memory only Blobs, and bodies made from them, refer.
      #bytes;
      #type;

      static {
        isBlob = (value) => isObject(value) && #bytes in value;
        bytesOf = (blob) => blob.#bytes;
        typeOf = (blob) => blob.#type;
      }

      constructor(blobParts = undefined, options = undefined) {
        const { bytes, type } = blobParts === CREATE ? options : construct(blobParts, options, "Blob", nothing, nothing);
        this.#bytes = bytes;
        this.#type = type;
      }

      get size() {
        return TypedArrayPrototypeGetByteLength(this.#bytes);
      }

      get type() {
        return this.#type;
      }

      slice(start = undefined, end = undefined, contentType = undefined) {
        const bytes = this.#bytes;
        const size = TypedArrayPrototypeGetByteLength(bytes);
        const toIndex = (value, otherwise) => {
          if (value === undefined) return otherwise;
          const at = clamped(value);
          return at < 0 ? MathMax(size + at, 0) : MathMin(at, size);
        };
        const from = toIndex(start, 0);
        const to = toIndex(end, size);
        const type = contentType === undefined ? "" : normalType(DOMString(contentType));
        const offset = TypedArrayPrototypeGetByteOffset(bytes) + from;
        const cut = new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), offset, MathMax(to - from, 0));
        return new Blob(CREATE, { __proto__: null, bytes: cut, type });
      }

      stream() {
        return streamOf(this.#bytes);
      }

      textStream() {
        return internal.streams().decoded(streamOf(this.#bytes));
      }

      async text() {
        return internal.decodeUtf8(this.#bytes);
      }

      async arrayBuffer() {
        return TypedArrayPrototypeGetBuffer(new Uint8Array(this.#bytes));
      }

      async bytes() {
        return new Uint8Array(this.#bytes);
      }
    }
    expose(Blob);
    describe("Blob", isBlob, Blob, ["size", "type"]);

    class File extends Blob {
      #name;
      #lastModified;

      static {
        isFile = (value) => isObject(value) && #name in value;
        nameOf = (file) => file.#name;
        modifiedOf = (file) => file.#lastModified;
      }

      constructor(fileBits, fileName, options = undefined) {
        if (fileBits === CREATE) {
          super(CREATE, fileName);
          this.#name = options.name;
          this.#lastModified = options.lastModified;
          return;
        }
        needs(arguments.length, 2, "File");
        let name, modified;
        // The order of conversion is the parts, the name, the options, and the time. The File is
        // created after all conversions.
        const made = construct(fileBits === undefined ? null : fileBits, options, "File", () => {
          name = USVString(fileName);
        }, (bag) => {
          const { lastModified } = bag;
          modified = lastModified === undefined ? DateNow() : longLong(lastModified);
        });
        super(CREATE, made);
        this.#name = name;
        this.#lastModified = modified;
      }

      get name() {
        return this.#name;
      }

      get lastModified() {
        return this.#lastModified;
      }
    }
    expose(File);
    internal.describeBy("File", isFile, (file) => [
      "name", nameOf(file), "size", TypedArrayPrototypeGetByteLength(bytesOf(file)), "type", typeOf(file),
      "lastModified", modifiedOf(file),
    ]);

    // Nothing else may write to `bytes`.
    const newBlob = (bytes, type) => new Blob(CREATE, { __proto__: null, bytes, type: normalType(type) });
    const newFile = (bytes, name, type, lastModified = DateNow()) =>
      new File(CREATE, { __proto__: null, bytes, type: normalType(type) }, { __proto__: null, name, lastModified });

    const { initializers } = internal.body;
    initializers[initializers.length] = (value) => {
      if (!isBlob(value)) return null;
      const body = internal.body.of(bytesOf(value), typeOf(value) === "" ? null : typeOf(value));
      body.shared = true;
      return body;
    };
    const { cloners } = internal;
    cloners[cloners.length++] = (value) => {
      if (isFile(value)) return newFile(bytesOf(value), nameOf(value), typeOf(value), modifiedOf(value));
      return isBlob(value) ? newBlob(bytesOf(value), typeOf(value)) : null;
    };
    return { Blob, File, bytesOf, isBlob, isFile, modifiedOf, nameOf, newBlob, newFile, typeOf };
  });
})
