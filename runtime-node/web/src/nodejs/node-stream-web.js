// node:stream: conversions between the streams of Node.js and web streams, and node:stream/web.
//: module
(function (internal) {
  "use strict";

  const { ArrayBuffer, ArrayBufferIsView, Promise, Uint8Array } = internal.primordials;

  internal.define("streamWebModule", () => {
    const NAMES = [
      "ByteLengthQueuingStrategy", "CompressionStream", "CountQueuingStrategy", "DecompressionStream", "ReadableByteStreamController",
      "ReadableStream", "ReadableStreamBYOBReader", "ReadableStreamBYOBRequest", "ReadableStreamDefaultController",
      "ReadableStreamDefaultReader", "TextDecoderStream", "TextEncoderStream", "TransformStream",
      "TransformStreamDefaultController", "WritableStream", "WritableStreamDefaultController", "WritableStreamDefaultWriter",
    ];
    const { lazy } = internal.hooks;
    const exported = {};
    for (let i = 0; i < NAMES.length; i++) exported[NAMES[i]] = lazy(NAMES[i]);
    return exported;
  });

  internal.define("streamWeb", () => {
    const { abortError, invalid } = internal.node;
    const { errors, isReadableNode, isWebReadable, isWebWritable, isWritableNode } = internal.use("streamShared");
    const { lazy } = internal.hooks;
    const Readable = internal.use("readable");
    const { Writable } = internal.use("writable");
    const { Duplex } = internal.use("duplex");
    const { Buffer } = internal.use("buffer");
    const finished = internal.use("finished");

    // ---- Web streams to Node.js

    // Implements the readable side of a Node.js stream with a ReadableStream.
    function source(stream) {
      const reader = stream.getReader();
      let done = false;
      reader.closed.then(() => (done = true), () => (done = true));
      return {
        read(target) {
          reader.read().then((result) => target.push(result.done ? null : result.value), (error) => target.destroy(error));
        },
        destroy(error) {
          if (done) return undefined;
          return reader.cancel(error ?? undefined);
        },
      };
    }
    // Implements the writable side of a Node.js stream with a WritableStream.
    function sink(stream) {
      const writer = stream.getWriter();
      let done = false;
      writer.closed.then(() => (done = true), () => (done = true));
      return {
        writer,
        write(chunk, callback) {
          writer.ready.then(() => writer.write(chunk)).then(() => callback(), (error) => callback(error ?? abortError()));
        },
        final(callback) {
          writer.close().then(() => callback(), (error) => callback(error ?? abortError()));
        },
        destroy(error) {
          if (done) return undefined;
          return error ? writer.abort(error) : writer.close();
        },
      };
    }
    const after = (promise, error, callback) => {
      Promise.resolve(promise).then(() => callback(error), (failure) => callback(error ?? failure));
    };

    function readableFromWeb(stream, options = {}) {
      if (!isWebReadable(stream)) throw invalid("readableStream", "an instance of ReadableStream", stream);
      const from = source(stream);
      return new Readable({
        highWaterMark: options.highWaterMark, encoding: options.encoding, objectMode: options.objectMode ?? false, signal: options.signal,
        read() {
          from.read(this);
        },
        destroy: (error, callback) => after(from.destroy(error), error, callback),
      });
    }

    function writableFromWeb(stream, options = {}) {
      if (!isWebWritable(stream)) throw invalid("writableStream", "an instance of WritableStream", stream);
      const to = sink(stream);
      const writable = new Writable({
        highWaterMark: options.highWaterMark, objectMode: options.objectMode ?? false, decodeStrings: options.decodeStrings,
        signal: options.signal,
        write: (chunk, encoding, callback) => to.write(chunk, callback),
        final: (callback) => to.final(callback),
        destroy: (error, callback) => after(to.destroy(error), error, callback),
      });
      to.writer.closed.catch((error) => writable.destroy(error));
      return writable;
    }

    function duplexFromWeb(pair, options = {}) {
      if (!isWebReadable(pair?.readable)) throw invalid("pair.readable", "an instance of ReadableStream", pair?.readable);
      if (!isWebWritable(pair.writable)) throw invalid("pair.writable", "an instance of WritableStream", pair.writable);
      const from = source(pair.readable);
      const to = sink(pair.writable);
      const duplex = new Duplex({
        ...options,
        read() {
          from.read(this);
        },
        write: (chunk, encoding, callback) => to.write(chunk, callback),
        final: (callback) => to.final(callback),
        destroy: (error, callback) => after(Promise.all([from.destroy(error), to.destroy(error)]), error, callback),
      });
      to.writer.closed.catch((error) => duplex.destroy(error));
      return duplex;
    }

    // ---- Node.js to web streams

    function readableToWeb(stream, options = {}) {
      if (!isReadableNode(stream)) throw invalid("streamReadable", "an instance of stream.Readable", stream);
      const objectMode = stream.readableObjectMode === true;
      const ReadableStream = lazy("ReadableStream");
      if (stream.destroyed || !stream.readable) {
        const empty = new ReadableStream();
        empty.cancel();
        return empty;
      }
      const strategy = options.strategy ?? (objectMode
        ? new (lazy("CountQueuingStrategy"))({ highWaterMark: stream.readableHighWaterMark })
        : new (lazy("ByteLengthQueuingStrategy"))({ highWaterMark: stream.readableHighWaterMark }));
      let controller;
      let canceled = false;
      const onData = (chunk) => {
        // A view is copied, because a Buffer may share its memory.
        if (!objectMode && ArrayBufferIsView(chunk)) chunk = new Uint8Array(chunk);
        controller.enqueue(chunk);
        if (controller.desiredSize <= 0) stream.pause();
      };
      stream.pause();
      finished(stream, { writable: false }, (error) => {
        stream.on("error", () => {});
        if (canceled) return;
        canceled = true;
        if (error) controller.error(error.code === "ERR_STREAM_PREMATURE_CLOSE" ? abortError() : error);
        else controller.close();
      });
      stream.on("data", onData);
      return new ReadableStream({
        start(given) {
          controller = given;
        },
        pull() {
          stream.resume();
        },
        cancel(reason) {
          canceled = true;
          stream.destroy(reason);
        },
      }, strategy);
    }

    function writableToWeb(stream) {
      if (!isWritableNode(stream)) throw invalid("streamWritable", "an instance of stream.Writable", stream);
      const WritableStream = lazy("WritableStream");
      const strategy = stream.writableObjectMode
        ? new (lazy("CountQueuingStrategy"))({ highWaterMark: stream.writableHighWaterMark })
        : { highWaterMark: stream.writableHighWaterMark, size: (chunk) => chunk?.byteLength ?? chunk?.length ?? 1 };
      let controller;
      let drained = null;
      let ended = null;
      const settle = (error) => {
        const waiting = [drained, ended];
        drained = ended = null;
        for (const each of waiting) {
          if (error) each?.reject(error);
          else each?.resolve();
        }
      };
      finished(stream, { readable: false }, (error) => {
        stream.on("error", () => {});
        const failure = error?.code === "ERR_STREAM_PREMATURE_CLOSE" ? abortError() : error;
        if (failure) controller?.error(failure);
        settle(failure);
      });
      stream.on("drain", () => {
        const waiting = drained;
        drained = null;
        waiting?.resolve();
      });
      return new WritableStream({
        start(given) {
          controller = given;
          if (stream.destroyed || !stream.writable) controller.error(errors.destroyed("write"));
        },
        write(chunk) {
          const bytes = !stream.writableObjectMode && chunk instanceof ArrayBuffer ? Buffer.from(chunk) : chunk;
          if (!stream.writableNeedDrain && stream.write(bytes)) return undefined;
          return new Promise((resolve, reject) => (drained = { resolve, reject }));
        },
        abort(reason) {
          stream.destroy(reason);
        },
        close() {
          if (stream.writableFinished) return undefined;
          return new Promise((resolve, reject) => {
            ended = { resolve, reject };
            stream.end();
          });
        },
      }, strategy);
    }

    return { duplexFromWeb, readableFromWeb, readableToWeb, writableFromWeb, writableToWeb };
  });
})
