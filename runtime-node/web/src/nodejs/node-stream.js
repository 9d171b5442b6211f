// node:stream: the exports of the module, and the legacy base class of all streams.
//: module
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, ObjectSetPrototypeOf, ReflectApply, SymbolFor, Uint8Array } = internal.primordials;

  // A stream without `read()`: it emits "data" whether or not its consumer is ready.
  internal.define("legacyStream", () => {
    const { defineHidden } = internal.node;
    const EventEmitter = internal.use("events");

    function Stream(options) {
      ReflectApply(EventEmitter, this, [options]);
    }
    ObjectSetPrototypeOf(Stream.prototype, EventEmitter.prototype);
    ObjectSetPrototypeOf(Stream, EventEmitter);

    defineHidden(Stream.prototype, {
      pipe(destination, options) {
        const source = this;
        const onData = (chunk) => {
          if (destination.writable && destination.write(chunk) === false) source.pause?.();
        };
        const onDrain = () => {
          if (source.readable) source.resume?.();
        };
        let ended = false;
        const onEnd = () => {
          if (ended) return;
          ended = true;
          destination.end();
        };
        const onClose = () => {
          if (ended) return;
          ended = true;
          destination.destroy?.();
        };
        function onError(error) {
          clean();
          if (this.listenerCount("error") === 0) this.emit("error", error);
        }
        const listeners = [
          [source, "data", onData], [destination, "drain", onDrain], [source, "error", onError], [destination, "error", onError],
        ];
        if (options?.end !== false) listeners.push([source, "end", onEnd], [source, "close", onClose]);
        const cleanupListeners = [[source, "end", clean], [source, "close", clean], [destination, "close", clean]];
        function clean() {
          for (const [emitter, type, listener] of [...listeners, ...cleanupListeners]) emitter.removeListener(type, listener);
        }
        for (const [emitter, type, listener] of [...listeners, ...cleanupListeners]) emitter.on(type, listener);
        destination.emit("pipe", source);
        return destination;
      },
    });
    return Stream;
  });

  internal.define("stream", () => {
    const shared = internal.use("streamShared");
    const Stream = internal.use("legacyStream");
    const Readable = internal.use("readable");
    const { Duplex, PassThrough, Transform } = internal.use("duplex");
    const { Writable } = internal.use("writable");
    const { compose, pipeline } = internal.use("pipeline");
    const { isDestroyed, isDisturbed, isErrored, isReadable, isWritable } = shared.predicates;

    const exported = {
      Duplex, PassThrough, Readable, Stream, Transform, Writable,
      addAbortSignal: shared.addAbortSignal,
      compose,
      finished: internal.use("finished"),
      getDefaultHighWaterMark: shared.getDefaultHighWaterMark,
      isDestroyed, isDisturbed, isErrored, isReadable, isWritable,
      pipeline,
      promises: internal.use("streamPromises"),
      setDefaultHighWaterMark: shared.setDefaultHighWaterMark,
      _isUint8Array: (value) => value instanceof Uint8Array,
      _uint8ArrayToBuffer: (bytes) => internal.use("buffer").Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    };
    // The module's value is the class itself.
    const custom = SymbolFor("nodejs.util.promisify.custom");
    for (const name in exported) Stream[name] = exported[name];
    for (const name of ["pipeline", "finished"]) {
      ObjectDefineProperty(Stream[name], custom, { __proto__: null, value: exported.promises[name], configurable: true });
    }
    return Stream;
  });
})
