// node:zlib: the codecs of CompressionStream and DecompressionStream (gzip, deflate and brotli), at
// the levels that these streams use.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBuffer, ArrayBufferIsView, Error, MathFloor, RangeError, TypedArrayPrototypeGetByteLength, Uint32Array, Uint8Array,
  } = internal.primordials;
  const { ops } = internal;

  internal.define("zlib", () => {
    const { coded, invalid, needFunction, needInteger } = internal.node;
    const { lazy } = internal.hooks;
    const { Buffer } = internal.use("buffer");
    const { Duplex } = internal.use("duplex");

    // Statuses of `codecPush`, which `streams-compression.js` describes.
    const WANTS = 0, ENDED = 2, WRONG = 3, FULL = 4;

    const dataError = () => {
      const error = coded(Error, "Z_DATA_ERROR", "incorrect header check");
      error.errno = -3;
      return error;
    };
    const endError = () => {
      const error = coded(Error, "Z_BUF_ERROR", "unexpected end of file");
      error.errno = -5;
      return error;
    };
    const tooLarge = (max) => coded(RangeError, "ERR_BUFFER_TOO_LARGE", `Cannot create a Buffer larger than ${max} bytes`);

    function bytesOf(data) {
      if (typeof data === "string") return Buffer.from(data);
      if (ArrayBufferIsView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      if (data instanceof ArrayBuffer) return Buffer.from(data);
      throw invalid("buffer", "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer", data);
    }
    const maxOutputOf = (options) => (options?.maxOutputLength === undefined ? Infinity
      : needInteger(options.maxOutputLength, "options.maxOutputLength", 1));

    // Detects the format of data to unzip by its first bytes.
    const kindOf = (bytes) => (bytes.length > 1 && bytes[0] === 0x1f && bytes[1] === 0x8b ? "gzip" : "deflate");

    // Runs a codec over all of the data, one step per native call, so that the watchdog can
    // terminate the Worker between calls.
    function runSync(format, decompress, data, options) {
      const bytes = bytesOf(data);
      const max = maxOutputOf(options);
      const id = ops.codecOpen(format ?? kindOf(bytes), decompress);
      if (id === 0) throw coded(RangeError, "ERR_MEMORY_ALLOCATION_FAILED", "Failed to allocate memory");
      const pieces = [];
      let total = 0;
      try {
        for (let at = 0; ;) {
          const last = at >= TypedArrayPrototypeGetByteLength(bytes);
          // The result is status + 8 · (bytes read + 2²⁰ · bytes produced).
          const result = ops.codecPush(id, bytes, at, last && !decompress);
          const status = result % 8, counts = MathFloor(result / 8);
          at += counts % 2 ** 20;
          const produced = MathFloor(counts / 2 ** 20);
          if (status === WRONG) throw dataError();
          if (status === FULL) throw coded(RangeError, "ERR_MEMORY_ALLOCATION_FAILED", "Failed to allocate memory");
          if (produced > 0) {
            const piece = new Uint8Array(produced);
            ops.codecTake(piece);
            pieces.push(piece);
            total += produced;
            if (total > max) throw tooLarge(max);
          }
          if (status === ENDED) return Buffer.concat(pieces);
          if (last && status === WANTS) throw endError();
        }
      } finally {
        ops.codecClose(id);
      }
    }

    // Wraps the platform's stream, whose errors are the platform's own.
    function createStream(format, decompress) {
      return Duplex.fromWeb(new (lazy(decompress ? "DecompressionStream" : "CompressionStream"))(format));
    }

    function runLater(format, decompress, data, options, callback) {
      if (typeof options === "function") {
        callback = options;
        options = undefined;
      }
      needFunction(callback, "callback");
      const bytes = bytesOf(data);
      const max = maxOutputOf(options);
      const stream = createStream(format ?? kindOf(bytes), decompress);
      const pieces = [];
      let total = 0;
      stream.on("data", (piece) => {
        pieces.push(piece);
        total += piece.length;
        if (total > max) stream.destroy(tooLarge(max));
      });
      internal.use("finished")(stream, (error) => {
        if (!error) callback(null, Buffer.concat(pieces));
        else callback(error.code !== undefined ? error : /too early/.exec(error.message) ? endError() : dataError());
      });
      stream.end(bytes);
    }

    const exported = {
      constants: {
        Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1,
        Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_NO_COMPRESSION: 0,
        Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_DEFAULT_STRATEGY: 0, Z_MIN_WINDOWBITS: 8,
        Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1,
        BROTLI_OPERATION_FINISH: 2, BROTLI_PARAM_MODE: 0, BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2,
        BROTLI_PARAM_SIZE_HINT: 5, BROTLI_MIN_QUALITY: 0, BROTLI_MAX_QUALITY: 11, BROTLI_DEFAULT_QUALITY: 11,
      },
      crc32(data, value = 0) {
        const bytes = bytesOf(data);
        needInteger(value, "value", 0, 2 ** 32 - 1);
        let crc = ~value;
        for (let i = 0; i < bytes.length; i++) crc = table()[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
        return ~crc >>> 0;
      },
    };
    // The table of CRC-32 (RFC 1952 §8), which is created on first use.
    let entries = null;
    const table = () => {
      if (entries !== null) return entries;
      entries = new Uint32Array(256);
      for (let i = 0; i < 256; i++) {
        let entry = i;
        for (let bit = 0; bit < 8; bit++) entry = entry & 1 ? 0xedb88320 ^ (entry >>> 1) : entry >>> 1;
        entries[i] = entry;
      }
      return entries;
    };

    // Exports the functions of a codec, such as `gzip`, `gzipSync` and `createGzip`.
    const addCodec = (name, format, decompress) => {
      exported[name] = (data, options, callback) => runLater(format, decompress, data, options, callback);
      exported[`${name}Sync`] = (data, options) => runSync(format, decompress, data, options);
      if (format === null) return;
      exported[`create${name[0].toUpperCase()}${name.slice(1)}`] = () => createStream(format, decompress);
    };
    addCodec("gzip", "gzip", false);
    addCodec("gunzip", "gzip", true);
    addCodec("deflate", "deflate", false);
    addCodec("inflate", "deflate", true);
    addCodec("deflateRaw", "deflate-raw", false);
    addCodec("inflateRaw", "deflate-raw", true);
    addCodec("brotliCompress", "brotli", false);
    addCodec("brotliDecompress", "brotli", true);
    addCodec("unzip", null, true);
    return exported;
  });
})
