// atob and btoa (HTML §8.3). The language's own base64, in its default settings, is Infra's forgiving base64.
(function (internal) {
  "use strict";

  const { Uint8Array, Uint8ArrayFromBase64, Uint8ArrayPrototypeToBase64 } = internal.primordials;
  const { DOMString, needs } = internal.webidl;

  const invalid = (message) => new internal.DOMException(message, "InvalidCharacterError");

  internal.globals({
    atob(data) {
      needs(arguments.length, 1, "atob");
      const string = DOMString(data);
      let bytes;
      try {
        bytes = Uint8ArrayFromBase64(string);
      } catch {
        throw invalid("atob: the string is not correctly encoded base64");
      }
      return internal.ops.latin1Read(bytes);
    },

    btoa(data) {
      needs(arguments.length, 1, "btoa");
      const string = DOMString(data);
      const bytes = new Uint8Array(string.length);
      if (!internal.ops.latin1Write(string, bytes)) throw invalid("btoa: the string has characters outside of Latin-1");
      return Uint8ArrayPrototypeToBase64(bytes);
    },
  });
})
