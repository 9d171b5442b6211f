// What other files here use of streams: `internal.streams()`.
//
// Streams, and readers' requests, are handed in and out as what a Worker has (`ReadableStream`, `WritableStream`) or as
// opaque (controllers, readers). Nothing of these runs a Worker's code, but where the stream is one that a Worker has made.
//
//   isReadable(v), isWritable(v)     whether it is one; ask `internal.isReadableStream(v)` where there may be no streams yet
//   isLocked(s), isDisturbed(s), isClosed(s), isErrored(s)
//   newReadable({ start, pull, cancel, type, highWaterMark })
//                                    a stream by our own algorithms: `start(controller)`, `pull(controller)`,
//                                    `cancel(reason)`, each of which may return a promise. With `type: "bytes"` what is
//                                    enqueued are Uint8Arrays, whose buffers are the stream's from then on.
//   enqueue(controller, chunk), close(controller), error(controller, reason), isOpen(controller), desiredSize(controller)
//   vacancy(controller), filled(controller, count)
//                                    of a byte stream: the Uint8Array that its reader wants filled, or null; and that so many
//                                    bytes of it have been
//   tee(s)                           {first, second}; the second one's bytes are copies
//   acquire(s), release(reader)
//   readChunk(reader)                a promise of {value, done}
//   read(reader, request)            the same without promises: one of `request.chunk(value)`, `close()`, `error(reason)`
//   cancel(s, reason)                a promise of undefined; the stream may be locked
//   newWritable({ start, write, close, abort, highWaterMark })
//   newTransform({ transform, flush, cancel })
//                                    a TransformStream; `transform(chunk, controller)`, `flush(controller)`, where
//   transformed(controller, chunk)   enqueues
//   pipe(readable, writable, { preventAbort, preventCancel, preventClose, signal })
//                                    a promise of undefined
//   through(readable, transform)     the readable side of the TransformStream, into which the stream is piped
//   decoded(readable)                a stream of the text that its bytes are in UTF-8
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
      base.handled(internal.streamsPipe().pipe(streamOf(source), writable, { __proto__: null }));
      return wrap(out);
    };

    // What resolves a promise has no prototype, so that nobody is asked for its `then`.
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
        wrap(algorithms.type === "bytes" ? internal.streamsBytes().make(algorithms) : readable.make(algorithms)),
      enqueue(controller, chunk) {
        if (!controller.bytes) return controller.enqueue(chunk);
        controller.enqueue(
          TypedArrayPrototypeGetBuffer(chunk), TypedArrayPrototypeGetByteOffset(chunk), TypedArrayPrototypeGetByteLength(chunk),
        );
      },
      // Closes it for who waits with a view of theirs as well.
      close(controller) {
        if (!controller.isOpen) return;
        controller.close();
        if (controller.bytes && !controller.closing && controller.firstPending !== null) controller.respond(0);
      },
      error: (controller, reason) => controller.error(reason),
      isOpen: (controller) => controller.isOpen,
      desiredSize: (controller) => controller.desiredSize,
      vacancy: (controller) => controller.vacancy(),
      filled: (controller, count) => controller.respond(count),

      tee(stream) {
        const { first, second } = api.tee(streamOf(stream), true);
        return { __proto__: null, first: wrap(first), second: wrap(second) };
      },
      acquire: (stream) => readable.acquire(streamOf(stream), false),
      release: readable.release,
      readChunk(reader) {
        const request = new Read();
        readable.read(reader, request);
        return request.capability.promise;
      },
      read: readable.read,
      cancel: (stream, reason) => readable.cancel(streamOf(stream), reason),

      newWritable: (algorithms) => internal.streamsWritableApi().wrap(internal.streamsWritable().make(algorithms)),
      newTransform: (algorithms) => internal.streamsTransformApi().wrap(internal.streamsTransform().make(algorithms)),
      transformed: (controller, chunk) => controller.enqueue(chunk),

      pipe: (source, destination, how = { __proto__: null }) =>
        internal.streamsPipe().pipe(streamOf(source), writableOf(destination), how),
      through: (source, transform) => throughRecord(source, internal.streamsTransformApi().recordOf(transform)),
      decoded: (source) => throughRecord(source, internal.streamsText().newDecoder()),
    };
  });
})
