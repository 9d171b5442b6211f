// atob and btoa (HTML §8.3).
//: after domexception.js
(function (internal) {
  "use strict";

  const { DOMString, needs } = internal.webidl;

  const invalid = (message) => new (internal.exceptions().DOMException)(message, "InvalidCharacterError");

  internal.globals({
    atob(data) {
      needs(arguments.length, 1, "atob");
      const decoded = internal.ops.base64Decode(DOMString(data));
      if (decoded === undefined) throw invalid("atob: the string is not correctly encoded base64");
      return decoded;
    },

    btoa(data) {
      needs(arguments.length, 1, "btoa");
      const encoded = internal.ops.base64Encode(DOMString(data));
      if (encoded === undefined) throw invalid("btoa: the string has characters outside of Latin-1");
      return encoded;
    },
  });
})
