// The index of the built-in modules: which file defines each value, and which value each module is.
//
// The index is a module itself, so that only Workers that use built-in modules have it.
//: module
(function (internal) {
  "use strict";

  const { ObjectKeys } = internal.primordials;

  internal.define("index", () => {
    // The values that a file defines under other names than its own. The value `NAME` of a file
    // `node-NAME.js` is not listed.
    const DEFINED = {
      __proto__: null,
      "node-async_hooks.js": ["asyncContext"],
      "node-buffer-numbers.js": ["bufferNumbers"],
      "node-buffer-text.js": ["bufferText"],
      "node-crypto-cipher.js": ["cryptoCiphers"],
      "node-crypto-data.js": ["cryptoData"],
      "node-crypto-derive.js": ["cryptoDerivation"],
      "node-crypto-ecdh.js": ["cryptoAgreement"],
      "node-crypto-generate.js": ["cryptoGeneration"],
      "node-crypto-hash.js": ["cryptoHashes"],
      "node-crypto-keys.js": ["cryptoKeyObjects"],
      "node-crypto-pem.js": ["cryptoPem"],
      "node-crypto-random.js": ["cryptoRandom"],
      "node-crypto-rsa.js": ["cryptoRsa"],
      "node-crypto-sign.js": ["cryptoSignatures"],
      "node-equal.js": ["equality"],
      "node-events-static.js": ["eventStatics"],
      "node-fs-calls.js": ["fsCalls", "fsStats"],
      "node-fs-open.js": ["fsConstants", "fsOpen"],
      "node-fs-promises.js": ["fsDirectory", "fsPromises"],
      "node-fs-streams.js": ["fsStreams"],
      "node-fs-tree.js": ["fsTree"],
      "node-http-client.js": ["httpClient"],
      "node-http-incoming.js": ["httpIncoming", "httpSocket"],
      "node-http-outgoing.js": ["httpOutgoing"],
      "node-http-server.js": ["httpServer"],
      "node-http.js": ["httpAgent", "httpStatus", "https"],
      "node-net-socket.js": ["netSocket"],
      "node-net.js": ["netAddresses"],
      "node-os.js": ["perf_hooks", "tty"],
      "node-stream-duplex.js": ["duplex", "writableProperties"],
      "node-stream-iterate.js": ["streamConsumers", "streamFrom", "streamOperators"],
      "node-stream-pipeline.js": ["finished", "pipeline", "streamPromises"],
      "node-stream-readable-rest.js": ["readableRest"],
      "node-stream-readable-state.js": ["readableState"],
      "node-stream-readable.js": ["readable"],
      "node-stream-state.js": ["streamShared"],
      "node-stream-web.js": ["streamWeb", "streamWebModule"],
      "node-stream-writable.js": ["writable"],
      "node-stream.js": ["legacyStream"],
      "node-stubs.js": [
        "child_process", "cluster", "constants", "dgram", "domain", "http2", "inspector", "repl", "test", "trace_events", "v8", "vm",
        "wasi", "worker_threads",
      ],
      "node-util-types.js": ["utilTypes"],
      "sockets.js": ["socketConnections", "sockets"],
      "workers.js": ["workers"],
    };

    // The modules whose value is not the one with their own name: the name of the value, or the
    // name of a value and of its property.
    const VALUES = {
      __proto__: null,
      "assert/strict": ["assert", "strict"],
      "cloudflare:node": ["httpServer", "cloudflare"],
      "cloudflare:sockets": "sockets",
      "cloudflare:workers": "workers",
      "dns/promises": ["dns", "promises"],
      "fs/promises": "fsPromises",
      "inspector/promises": "inspector",
      "path/posix": "path",
      "readline/promises": ["readline", "promises"],
      "stream/consumers": "streamConsumers",
      "stream/promises": "streamPromises",
      "stream/web": "streamWebModule",
      sys: "util",
      "timers/promises": ["timers", "promises"],
      "util/types": "utilTypes",
    };
    // The other modules.
    const NAMED = [
      "assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram",
      "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https", "inspector", "module", "net", "os", "path",
      "perf_hooks", "process", "punycode", "querystring", "readline", "repl", "stream", "string_decoder", "test", "timers", "tls",
      "trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib",
    ];

    const files = { __proto__: null };
    const defining = ObjectKeys(DEFINED);
    for (let i = 0; i < defining.length; i++) {
      const names = DEFINED[defining[i]];
      for (let j = 0; j < names.length; j++) files[names[j]] = defining[i];
    }
    const modules = { __proto__: null, ...VALUES };
    for (let i = 0; i < NAMED.length; i++) modules[NAMED[i]] = NAMED[i];
    return { files, modules };
  });
})
