// node:crypto: randomness from the operating system.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, MathMin, TypedArrayPrototypeGetByteLength, Uint8Array } = internal.primordials;
  const { ops } = internal;
  const { bufferSource } = internal.webidl;

  // The number of random bytes per native call.
  const STEP = 2 ** 16;

  internal.define("cryptoRandom", () => {
    const { invalid, needFunction, needInteger, outOfRange } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { MAX_INT32, callLater } = internal.use("cryptoData");

    function fill(bytes) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      for (let at = 0; at < length; at += STEP) {
        ops.randomFill(new Uint8Array(bytes.buffer, bytes.byteOffset + at, MathMin(STEP, length - at)));
      }
      return bytes;
    }
    function randomBytes(size, callback = undefined) {
      needInteger(size, "size", 0, MAX_INT32);
      if (callback !== undefined) needFunction(callback, "callback");
      const bytes = fill(Buffer.alloc(size));
      if (callback === undefined) return bytes;
      callLater(callback, null, bytes);
      return undefined;
    }
    function randomFillSync(view, offset = 0, size = undefined) {
      const bytes = bufferSource(view);
      if (bytes === null) throw invalid("buf", "an instance of ArrayBuffer or ArrayBufferView", view);
      const unit = ArrayBufferIsView(view) ? view.BYTES_PER_ELEMENT ?? 1 : 1;
      const length = TypedArrayPrototypeGetByteLength(bytes);
      const from = needInteger(offset, "offset", 0, length / unit) * unit;
      const count = size === undefined ? length - from : needInteger(size, "size", 0, (length - from) / unit) * unit;
      fill(new Uint8Array(bytes.buffer, bytes.byteOffset + from, count));
      return view;
    }
    function randomFill(view, ...rest) {
      const callback = needFunction(rest[rest.length - 1], "callback");
      const filled = randomFillSync(view, rest.length > 1 ? rest[0] : undefined, rest.length > 2 ? rest[1] : undefined);
      callLater(callback, null, filled);
    }

    // Returns a random integer. Random numbers from the incomplete last range are discarded, so
    // that every integer is equally likely.
    function randomInt(min, max = undefined, callback = undefined) {
      if (max === undefined || typeof max === "function") return randomInt(0, min, max);
      needInteger(min, "min");
      needInteger(max, "max");
      const range = max - min;
      if (range <= 0) throw outOfRange("max", `greater than the value of "min" (${min})`, max);
      if (range > 2 ** 48 - 1) throw outOfRange("max - min", `<= ${2 ** 48 - 1}`, range);
      const limit = 2 ** 48 - (2 ** 48 % range);
      const bytes = Buffer.alloc(6);
      let number;
      do number = fill(bytes).readUIntBE(0, 6); while (number >= limit);
      const chosen = min + (number % range);
      if (callback === undefined) return chosen;
      callLater(needFunction(callback, "callback"), null, chosen);
      return undefined;
    }

    return {
      getRandomValues: (array) => internal.crypto().crypto.getRandomValues(array),
      pseudoRandomBytes: randomBytes,
      randomBytes, randomFill, randomFillSync, randomInt,
      randomUUID: () => ops.randomUuid(),
    };
  });
})
