// node:querystring: query strings as objects, and escapes in them.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ArrayPrototypeJoin, ArrayPrototypePush, ObjectKeys, RegExpPrototypeExec, StringPrototypeIndexOf,
    StringPrototypeReplaceAll, StringPrototypeSlice, StringPrototypeSplit, URIError, decodeURIComponent, encodeURIComponent,
  } = internal.primordials;

  internal.define("querystring", () => {
    const { coded } = internal.node;
    const MAX_KEYS = 1000;
    const HEX_DIGITS = /^[0-9A-Fa-f]{2}$/;

    // Decodes percent escapes and leaves malformed ones unchanged.
    const unescapeBuffer = (text) => {
      const bytes = internal.use("buffer").Buffer.from(`${text}`);
      let length = 0;
      for (let i = 0; i < bytes.length; i++, length++) {
        const digits = bytes[i] === 0x25 ? bytes.latin1Slice(i + 1, i + 3) : "";
        const escaped = digits !== "" && RegExpPrototypeExec(HEX_DIGITS, digits) !== null;
        bytes[length] = escaped ? +`0x${digits}` : bytes[i];
        if (escaped) i += 2;
      }
      return bytes.subarray(0, length);
    };

    const querystring = {
      escape(value) {
        const text = `${value}`;
        try {
          return encodeURIComponent(text);
        } catch (error) {
          if (error instanceof URIError) throw coded(URIError, "ERR_INVALID_URI", "URI malformed");
          throw error;
        }
      },

      unescape(text) {
        try {
          return decodeURIComponent(text);
        } catch {
          return unescapeBuffer(text).toString();
        }
      },
      unescapeBuffer,

      stringify(object, separator = "&", equals = "=", options = undefined) {
        if (typeof object !== "object" || object === null) return "";
        const escape = options?.encodeURIComponent ?? querystring.escape;
        const primitive = (value) => {
          switch (typeof value) {
            case "string": return value;
            case "number": return value - value === 0 ? `${value}` : "";
            case "bigint": case "boolean": return `${value}`;
            default: return "";
          }
        };
        const keys = ObjectKeys(object);
        const fields = [];
        for (let i = 0; i < keys.length; i++) {
          const value = object[keys[i]];
          const name = `${escape(keys[i])}${equals ?? "="}`;
          const values = ArrayIsArray(value) ? value : [value];
          for (let j = 0; j < values.length; j++) ArrayPrototypePush(fields, `${name}${escape(primitive(values[j]))}`);
        }
        return ArrayPrototypeJoin(fields, separator || "&");
      },

      parse(text, separator = "&", equals = "=", options = undefined) {
        const fields = { __proto__: null };
        if (typeof text !== "string" || text === "") return fields;
        const max = typeof options?.maxKeys === "number" ? options.maxKeys : MAX_KEYS;
        const unescape = options?.decodeURIComponent ?? querystring.unescape;
        const parts = max > 0
          ? StringPrototypeSplit(text, `${separator || "&"}`, max) : StringPrototypeSplit(text, `${separator || "&"}`);
        const equalsSign = `${equals || "="}`;
        const decodeField = (part) => {
          const spaced = StringPrototypeReplaceAll(part, "+", " ");
          if (unescape === querystring.unescape && StringPrototypeIndexOf(spaced, "%") < 0) return spaced;
          try {
            return unescape(spaced);
          } catch {
            return querystring.unescape(spaced);
          }
        };
        for (let i = 0; i < parts.length; i++) {
          if (parts[i] === "") continue;
          const at = StringPrototypeIndexOf(parts[i], equalsSign);
          const name = decodeField(at < 0 ? parts[i] : StringPrototypeSlice(parts[i], 0, at));
          const value = at < 0 ? "" : decodeField(StringPrototypeSlice(parts[i], at + equalsSign.length));
          if (fields[name] === undefined) fields[name] = value;
          else if (typeof fields[name] === "string") fields[name] = [fields[name], value];
          else ArrayPrototypePush(fields[name], value);
        }
        return fields;
      },
    };
    querystring.encode = querystring.stringify;
    querystring.decode = querystring.parse;
    return querystring;
  });
})
