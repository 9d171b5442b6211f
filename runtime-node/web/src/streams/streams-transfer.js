// Transfer of streams (Streams §4.2.5, §5.2.5, §6.2.3, §8.2). The original stream is piped to or
// from its replacement through a transform that clones the chunks, because data that crosses realms
// is cloned.
//
//   original ReadableStream ─► Crossing ─► replacement
//   replacement ─► Crossing ─► original WritableStream
//: late, after clone.js streams-pipe.js streams-transform.js
(function (internal) {
  "use strict";

  internal.later("streamsTransfer", [], () => {
    const { handled } = internal.streamsBase();
    const { Transform } = internal.streamsTransform();
    const { readableStreamPipeTo } = internal.streamsPipe();

    const NOTHING = [];
    const cloned = (value) => internal.clones().send(value, NOTHING).value;

    // Returns a clone of a reason, or the error with which cloning failed.
    function reasonOf(reason) {
      try {
        return cloned(reason);
      } catch (error) {
        return error;
      }
    }

    const MARKS = { __proto__: null, writableMark: 1, writableSize: null, readableMark: 0, readableSize: null };
    const CLONES = {
      __proto__: null, transform: (chunk, crossing) => crossing.enqueue(cloned(chunk)), flush: null, cancel: null,
    };
    class Crossing extends Transform {
      constructor() {
        super(CLONES, undefined, MARKS);
        this.start(null);
      }
      sinkAbortAlgorithm(reason) {
        return super.sinkAbortAlgorithm(reasonOf(reason));
      }
      sourceCancelAlgorithm(reason) {
        return super.sourceCancelAlgorithm(reasonOf(reason));
      }
    }

    const refuseLocked = (isLocked, what) => {
      if (isLocked) {
        throw new (internal.exceptions().DOMException)(`A ${what} that is locked cannot be transferred`, "DataCloneError");
      }
    };
    const HOW = { __proto__: null };

    // Each of these functions takes the record of a stream and returns the record of its
    // replacement.
    function readable(stream) {
      refuseLocked(stream.reader !== null, "ReadableStream");
      const crossing = new Crossing();
      handled(readableStreamPipeTo(stream, crossing.writable, HOW));
      return crossing.readable;
    }
    function writable(stream) {
      refuseLocked(stream.writer !== null, "WritableStream");
      const crossing = new Crossing();
      handled(readableStreamPipeTo(crossing.readable, stream, HOW));
      return crossing.writable;
    }
    function transform(stream) {
      refuseLocked(stream.readable.reader !== null || stream.writable.writer !== null, "TransformStream");
      return { __proto__: null, readable: readable(stream.readable), writable: writable(stream.writable) };
    }
    return { __proto__: null, readable, transform, writable };
  });
})
