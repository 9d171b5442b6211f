// multipart/form-data (RFC 7578, and the HTML standard's encoding algorithm): conversion of forms
// to bodies and back.
//
//   --boundary CRLF
//   Content-Disposition: form-data; name="…"; filename="…" CRLF
//   Content-Type: … CRLF
//   CRLF
//   the value CRLF
//   --boundary-- CRLF
//
// Native code searches for the boundaries, a piece of the body at a time. A file's bytes are not
// copied out of the body.
//: late, after blob.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, MathMin, RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeSlice,
    StringPrototypeToLowerCase, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { ops } = internal;

  internal.later("multipart", [], () => {
    // The maximum number of bytes per native call, because such a call cannot be terminated.
    const STEP = 64 * 1024;
    // The limits of a body: the number of its parts, the bytes of each part's headers, and the
    // characters of the boundary.
    const MAX_PARTS = 10_000;
    const MAX_HEADERS = 16 * 1024;
    const MAX_BOUNDARY = 256;
    const CR = 13, LF = 10, DASH = 45, SPACE = 32, TAB = 9;

    const { bytesOf, nameOf, newFile, typeOf } = internal.blobs();

    // ---- Writing

    // Converts all line ends to CRLF.
    function lines(string) {
      let out = "";
      let from = 0;
      for (let i = 0; i < string.length; i++) {
        if (string[i] !== "\r" && string[i] !== "\n") continue;
        out += `${StringPrototypeSlice(string, from, i)}\r\n`;
        if (string[i] === "\r" && string[i + 1] === "\n") i++;
        from = i + 1;
      }
      return from === 0 ? string : out + StringPrototypeSlice(string, from);
    }
    const normal = (string) => (RegExpPrototypeExec(/[\r\n]/, string) === null ? string : lines(string));

    function escape(name) {
      if (RegExpPrototypeExec(/[\r\n"]/, name) === null) return name;
      let out = "";
      for (let i = 0; i < name.length; i++) {
        const character = name[i];
        out += character === "\r" ? "%0D" : character === "\n" ? "%0A" : character === '"' ? "%22" : character;
      }
      return out;
    }

    // Encodes a list of entries as a body: {source, type}. The source is a string if no entry is a
    // file.
    function encode(list) {
      const boundary = `----formdata-tenon-${ops.randomUuid()}`;
      const pieces = [];
      let text = "";
      for (let i = 0; i < list.length; i += 2) {
        const value = list[i + 1];
        text += `--${boundary}\r\nContent-Disposition: form-data; name="${escape(normal(list[i]))}"`;
        if (typeof value === "string") {
          text += `\r\n\r\n${normal(value)}\r\n`;
          continue;
        }
        const type = typeOf(value) === "" ? "application/octet-stream" : typeOf(value);
        text += `; filename="${escape(nameOf(value))}"\r\nContent-Type: ${type}\r\n\r\n`;
        ArrayPrototypePush(pieces, internal.encodeUtf8(text));
        ArrayPrototypePush(pieces, bytesOf(value));
        text = "\r\n";
      }
      text += `--${boundary}--\r\n`;
      const type = `multipart/form-data; boundary=${boundary}`;
      if (pieces.length === 0) return { __proto__: null, source: text, type };
      ArrayPrototypePush(pieces, internal.encodeUtf8(text));
      let size = 0;
      for (let i = 0; i < pieces.length; i++) size += TypedArrayPrototypeGetByteLength(pieces[i]);
      const source = new Uint8Array(size);
      let at = 0;
      for (let i = 0; i < pieces.length; i++) {
        TypedArrayPrototypeSet(source, pieces[i], at);
        at += TypedArrayPrototypeGetByteLength(pieces[i]);
      }
      return { __proto__: null, source, type };
    }

    // ---- Reading

    const malformed = (what) => new TypeError(`The body is not multipart/form-data: ${what}`);

    // Returns the position of the first `needle` that lies between `from` and `to`, or -1.
    function find(bytes, needle, from, to) {
      const more = TypedArrayPrototypeGetByteLength(needle) - 1;
      for (let at = from; at < to; at += STEP) {
        const found = ops.bytesFind(bytes, needle, at, MathMin(at + STEP + more, to));
        if (found >= 0) return found;
      }
      return -1;
    }

    const view = (bytes, from, to) =>
      new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + from, to - from);
    const text = (bytes, from, to) => ops.decode(view(bytes, from, to), "utf-8", false, true);

    function unescape(name) {
      let out = "";
      let from = 0;
      for (let at = StringPrototypeIndexOf(name, "%"); at >= 0; at = StringPrototypeIndexOf(name, "%", at + 1)) {
        const code = StringPrototypeSlice(name, at, at + 3);
        const character = code === "%0A" ? "\n" : code === "%0D" ? "\r" : code === "%22" ? '"' : null;
        if (character === null) continue;
        out += StringPrototypeSlice(name, from, at) + character;
        from = at + 3;
      }
      return from === 0 ? name : out + StringPrototypeSlice(name, from);
    }

    // Parses a value of Content-Disposition to {name, filename}, each of which is null if it is
    // missing.
    function disposition(value) {
      // A backslash before a quote escapes the quote (RFC 7578), unless the quote is the last one:
      // browsers do not escape backslashes.
      const PARAMETER =
        /[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*=[ \t]*(?:"((?:[^"]|(?<=\\)"(?![ \t]*(?:;|$)))*)"|([^ \t;"]+))/y;
      let name = null;
      let filename = null;
      PARAMETER.lastIndex = "form-data".length;
      for (let found; (found = RegExpPrototypeExec(PARAMETER, value)) !== null;) {
        let given = found[3];
        if (given === undefined) {
          given = "";
          const inner = found[2];
          for (let i = 0; i < inner.length; i++) if (inner[i] !== "\\" || inner[i + 1] !== '"') given += inner[i];
        }
        const key = StringPrototypeToLowerCase(found[1]);
        if (key === "name") name ??= unescape(given);
        else if (key === "filename") filename ??= unescape(given);
      }
      return { __proto__: null, name, filename };
    }

    // Parses the headers of a part: {name, filename, type}.
    function headers(string) {
      let names = null;
      let type = null;
      for (let at = 0; at < string.length;) {
        let end = StringPrototypeIndexOf(string, "\r\n", at);
        if (end < 0) end = string.length;
        const colon = StringPrototypeIndexOf(string, ":", at);
        if (colon < 0 || colon > end) throw malformed("a part has a header without a colon");
        const header = StringPrototypeToLowerCase(StringPrototypeSlice(string, at, colon));
        let from = colon + 1;
        while (string[from] === " " || string[from] === "\t") from++;
        const value = StringPrototypeSlice(string, from, end);
        if (header === "content-disposition") {
          if (RegExpPrototypeExec(/^form-data[ \t]*(?:;|$)/i, value) === null) throw malformed("a part is not form-data");
          names = disposition(value);
        } else if (header === "content-type") {
          type = value;
        }
        at = end + 2;
      }
      if (names === null || names.name === null) throw malformed("a part has no name");
      return { __proto__: null, name: names.name, filename: names.filename, type };
    }

    // Parses a body to a flat list of entries, [name, value, …].
    function parse(bytes, boundary) {
      if (boundary === "" || boundary.length > MAX_BOUNDARY) throw malformed("its boundary is empty or too long");
      const size = TypedArrayPrototypeGetByteLength(bytes);
      const delimiter = internal.encodeUtf8(`\r\n--${boundary}`);
      const first = view(delimiter, 2, TypedArrayPrototypeGetByteLength(delimiter));
      const blank = internal.encodeUtf8("\r\n\r\n");
      const length = TypedArrayPrototypeGetByteLength(delimiter);
      const list = [];
      // The position after the delimiter before the next part.
      let at = length - 2;
      if (find(bytes, first, 0, MathMin(at, size)) !== 0) {
        const found = find(bytes, delimiter, 0, size);
        if (found < 0) throw malformed("it does not contain its boundary");
        at = found + length;
      }
      for (;;) {
        if (bytes[at] === DASH && bytes[at + 1] === DASH) return list;
        while (bytes[at] === SPACE || bytes[at] === TAB) at++;
        if (bytes[at] !== CR || bytes[at + 1] !== LF) throw malformed("it ends within a part");
        if (list.length === 2 * MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} parts`);
        // A part without headers begins with the blank line.
        const end = find(bytes, blank, at, MathMin(at + MAX_HEADERS, size));
        if (end < 0) throw malformed("the headers of a part have no end, or are too long");
        const { name, filename, type } = headers(end === at ? "" : text(bytes, at + 2, end));
        const from = end + 4;
        // The CRLF before the delimiter may be the CRLF that ended the headers.
        const to = find(bytes, delimiter, end + 2, size);
        if (to < 0) throw malformed("it ends within a part");
        const last = to < from ? from : to;
        ArrayPrototypePush(list, name);
        ArrayPrototypePush(list, filename === null ? text(bytes, from, last)
          : newFile(view(bytes, from, last), filename, type ?? "text/plain"));
        at = to + length;
      }
    }

    return { encode, parse };
  });
})
