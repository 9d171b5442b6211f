// node:punycode: the encoding of labels of internationalized domain names (RFC 3492).
//: module
(function (internal) {
  "use strict";

  const { ArrayFrom, MathFloor, RangeError, StringFromCodePoint } = internal.primordials;

  internal.define("punycode", () => {
    // The parameters of RFC 3492 §5.
    const BASE = 36, T_MIN = 1, T_MAX = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72, FIRST_CODE = 128;
    const MAX_INT32 = 2 ** 31 - 1;

    const overflow = () => new RangeError("Overflow: input needs wider integers to process");
    const threshold = (k, bias) => (k <= bias ? T_MIN : k >= bias + T_MAX ? T_MAX : k - bias);

    // Returns the next bias (RFC 3492 §6.1).
    function adapt(delta, count, isFirst) {
      let scaled = isFirst ? MathFloor(delta / DAMP) : MathFloor(delta / 2);
      scaled += MathFloor(scaled / count);
      let k = 0;
      for (; scaled > ((BASE - T_MIN) * T_MAX) / 2; k += BASE) scaled = MathFloor(scaled / (BASE - T_MIN));
      return k + MathFloor(((BASE - T_MIN + 1) * scaled) / (scaled + SKEW));
    }

    const toDigit = (value) => StringFromCodePoint(value < 26 ? value + 0x61 : value + 22);
    function fromDigit(code) {
      if (code >= 0x30 && code <= 0x39) return code - 22;
      if (code >= 0x41 && code <= 0x5a) return code - 0x41;
      if (code >= 0x61 && code <= 0x7a) return code - 0x61;
      return BASE;
    }

    const ucs2 = {
      decode: (text) => ArrayFrom(text, (character) => character.codePointAt(0)),
      encode: (codes) => codes.map((code) => StringFromCodePoint(code)).join(""),
    };

    // Encodes a label (RFC 3492 §6.3). Each round encodes the occurrences of the smallest remaining
    // code point.
    function encode(text) {
      const codes = ucs2.decode(`${text}`);
      let encoded = codes.filter((code) => code < FIRST_CODE).map((code) => StringFromCodePoint(code)).join("");
      const basic = encoded.length;
      if (basic > 0) encoded += "-";
      let code = FIRST_CODE, delta = 0, bias = FIRST_BIAS;
      for (let done = basic; done < codes.length; delta++, code++) {
        let next = MAX_INT32;
        for (const each of codes) if (each >= code && each < next) next = each;
        if (next - code > MathFloor((MAX_INT32 - delta) / (done + 1))) throw overflow();
        delta += (next - code) * (done + 1);
        code = next;
        for (const each of codes) {
          if (each < code && ++delta > MAX_INT32) throw overflow();
          if (each !== code) continue;
          let q = delta;
          for (let k = BASE; ; k += BASE) {
            const t = threshold(k, bias);
            if (q < t) break;
            encoded += toDigit(t + ((q - t) % (BASE - t)));
            q = MathFloor((q - t) / (BASE - t));
          }
          encoded += toDigit(q);
          bias = adapt(delta, done + 1, done === basic);
          delta = 0;
          done++;
        }
      }
      return encoded;
    }

    // Decodes a label (RFC 3492 §6.2).
    function decode(given) {
      const text = `${given}`;
      const end = Math.max(text.lastIndexOf("-"), 0);
      const codes = [];
      for (let i = 0; i < end; i++) {
        if (text.charCodeAt(i) >= FIRST_CODE) throw new RangeError("Illegal input >= 0x80 (not a basic code point)");
        codes.push(text.charCodeAt(i));
      }
      let code = FIRST_CODE, at = 0, bias = FIRST_BIAS;
      for (let i = end > 0 ? end + 1 : 0; i < text.length; ) {
        const before = at;
        for (let weight = 1, k = BASE; ; k += BASE) {
          if (i >= text.length) throw new RangeError("Invalid input");
          const digit = fromDigit(text.charCodeAt(i++));
          if (digit >= BASE) throw new RangeError("Invalid input");
          if (digit > MathFloor((MAX_INT32 - at) / weight)) throw overflow();
          at += digit * weight;
          const t = threshold(k, bias);
          if (digit < t) break;
          if (weight > MathFloor(MAX_INT32 / (BASE - t))) throw overflow();
          weight *= BASE - t;
        }
        const count = codes.length + 1;
        bias = adapt(at - before, count, before === 0);
        code += MathFloor(at / count);
        if (code > 0x10ffff) throw overflow();
        at %= count;
        codes.splice(at++, 0, code);
      }
      return ucs2.encode(codes);
    }

    // Converts each label of a domain name, or of the domain of an email address.
    function labels(text, convert) {
      const at = text.lastIndexOf("@");
      const domain = text.slice(at + 1).replace(/[\u3002\uff0e\uff61]/g, ".");
      return text.slice(0, at + 1) + domain.split(".").map(convert).join(".");
    }
    return {
      decode, encode, ucs2,
      toASCII: (text) => labels(`${text}`, (label) => (/[^\0-\x7f]/.test(label) ? `xn--${encode(label)}` : label)),
      toUnicode: (text) => labels(`${text}`, (label) => (label.startsWith("xn--") ? decode(label.slice(4).toLowerCase()) : label)),
      version: "2.1.0",
    };
  });
})
