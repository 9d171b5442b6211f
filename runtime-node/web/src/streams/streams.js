// The interface of streams for other files: `internal.streams()`.
//
// Streams are passed as public objects (`ReadableStream`, `WritableStream`), and controllers and
// readers as opaque values. No function runs a Worker's code, except for streams that a Worker has
// created.
//
//   isReadable(v), isWritable(v)  type checks; use `internal.isReadableStream(v)` where streams may
//                                 not have been loaded yet
//   isLocked(s), isDisturbed(s), isClosed(s), isErrored(s)
//   newReadable({ start, pull, cancel, type, highWaterMark })
//                                 creates a stream with built-in algorithms: `start(controller)`,
//                                 `pull(controller)`, `cancel(reason)`, each of which may return a
//                                 promise. With `type: "bytes"` the chunks are Uint8Arrays, whose
//                                 buffers belong to the stream once they are enqueued
//   enqueue(controller, chunk), close(controller), error(controller, reason),
//   isOpen(controller), desiredSize(controller)
//   vacancy(controller)           of a byte stream: returns the Uint8Array that the reader wants
//                                 filled, or null
//   filled(controller, count)     reports that this many bytes of the vacancy have been filled
//   tee(s)                        returns {first, second}; the second one's bytes are copies
//   acquire(s), release(reader)
//   readChunk(reader)             returns a promise of {value, done}
//   read(reader, request)         reads without a promise: calls one of `request.chunk(value)`,
//                                 `close()` and `error(reason)`
//   cancel(s, reason)             returns a promise of undefined; the stream may be locked
//   newWritable({ start, write, close, abort, highWaterMark, size })
//   newTransform({ transform, flush, cancel })
//                                 creates a TransformStream with `transform(chunk, controller)`,
//                                 `flush(controller)` and `cancel(reason)`
//   transformed(controller, chunk)
//                                 enqueues a chunk from within these functions
//   pipe(readable, writable, { preventAbort, preventCancel, preventClose, signal })
//                                 returns a promise of undefined
//   through(readable, transform)  pipes the stream into a TransformStream, whose readable side it
//                                 returns
//   decoded(readable)             returns a stream of the text that the bytes encode in UTF-8
//: late, after streams-pipe.js streams-text.js
(function (internal) {
  "use strict";

  const {
    PromiseWithResolvers, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
  } = internal.primordials;

  internal.later("streams", [], () => {
    const base = internal.streamsBase();
    const readable = internal.streamsReadable();
    const api = internal.streamsReadableApi();
    const { streamOf, wrap } = api;
    const writableOf = (stream) => internal.streamsWritableApi().streamOf(stream);
    const throughRecord = (source, { readable: out, writable }) => {
      base.handled(internal.streamsPipe().readableStreamPipeTo(streamOf(source), writable, { __proto__: null }));
      return wrap(out);
    };

    // Results have no prototype, so that resolving a promise with one calls no `then` of a Worker.
    class Read {
      capability = PromiseWithResolvers();
      chunk(value) {
        this.capability.resolve({ __proto__: null, value, done: false });
      }
      close() {
        this.capability.resolve({ __proto__: null, value: undefined, done: true });
      }
      error(reason) {
        this.capability.reject(reason);
      }
    }

    return {
      __proto__: null,
      isReadable: internal.isReadableStream,
      isWritable: (value) => internal.isWritableStream(value),
      isLocked: (stream) => streamOf(stream).reader !== null,
      isDisturbed: (stream) => streamOf(stream).disturbed,
      isClosed: (stream) => streamOf(stream).state === readable.CLOSED,
      isErrored: (stream) => streamOf(stream).state === readable.ERRORED,

      newReadable: (algorithms) =>
        wrap(algorithms.type === "bytes" ? internal.streamsBytes().createReadableByteStream(algorithms)
          : readable.createReadableStream(algorithms)),
      enqueue(controller, chunk) {
        if (!controller.bytes) return controller.enqueue(chunk);
        controller.enqueue(
          TypedArrayPrototypeGetBuffer(chunk), TypedArrayPrototypeGetByteOffset(chunk), TypedArrayPrototypeGetByteLength(chunk),
        );
      },
      // Closes a stream, and answers readers that wait with views of their own.
      close(controller) {
        if (!controller.canCloseOrEnqueue) return;
        controller.close();
        if (controller.bytes && !controller.closing && controller.firstPendingPullInto !== null) controller.respond(0);
      },
      error: (controller, reason) => controller.error(reason),
      isOpen: (controller) => controller.canCloseOrEnqueue,
      desiredSize: (controller) => controller.desiredSize,
      vacancy: (controller) => controller.vacancy(),
      filled: (controller, count) => controller.respond(count),

      tee(stream) {
        const { first, second } = api.tee(streamOf(stream), true);
        return { __proto__: null, first: wrap(first), second: wrap(second) };
      },
      acquire: (stream) => readable.acquireReadableStreamReader(streamOf(stream), false),
      release: readable.readableStreamReaderRelease,
      readChunk(reader) {
        const request = new Read();
        readable.readableStreamDefaultReaderRead(reader, request);
        return request.capability.promise;
      },
      read: readable.readableStreamDefaultReaderRead,
      cancel: (stream, reason) => readable.readableStreamCancel(streamOf(stream), reason),

      newWritable: (algorithms) => internal.streamsWritableApi().wrap(internal.streamsWritable().createWritableStream(algorithms)),
      newTransform: (algorithms) => internal.streamsTransformApi().wrap(internal.streamsTransform().createTransformStream(algorithms)),
      transformed: (controller, chunk) => controller.enqueue(chunk),

      pipe: (source, destination, how = { __proto__: null }) =>
        internal.streamsPipe().readableStreamPipeTo(streamOf(source), writableOf(destination), how),
      through: (source, transform) => throughRecord(source, internal.streamsTransformApi().recordOf(transform)),
      decoded: (source) => throughRecord(source, internal.streamsText().newDecoder()),
    };
  });
})
