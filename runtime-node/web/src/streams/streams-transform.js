// TransformStream (Streams §6): a transformer turns the chunks that are written to the writable
// side into the chunks of the readable side.
//
// Two fields replace the standard's promise of a backpressure change: `waiting` resumes a write
// when backpressure ends, and `pulled` marks a pull that completes when backpressure returns.
//: late, after streams-readable-api.js streams-writable-api.js
(function (internal) {
  "use strict";

  const { PromiseReject, PromiseWithResolvers, RangeError, ReflectApply, TypeError } = internal.primordials;
  const { expose, isObject } = internal.webidl;

  internal.later("streamsTransform", [], () => {
    const { LATER, invoke, react, soon } = internal.streamsBase();
    const { DefaultController, ERRORED, Readable } = internal.streamsReadable();
    const writables = internal.streamsWritable();
    const { ERRORING, Writable } = writables;

    class Transform {
      readable = new Readable();
      writable = new Writable();
      // Set while the readable side demands no chunks.
      backpressure = true;
      // The function to call when backpressure ends; null if no write waits.
      waiting = null;
      // Set while a pull of the readable side is unfinished.
      pulled = false;
      // The chunk of a waiting write.
      chunk = undefined;
      // The promise of the one algorithm that ends the stream.
      finishing = null;
      // The receiver of the algorithms, the controller that they receive, and the algorithms.
      self;
      /** @type {object} */
      handle = this;
      transformer;
      flusher;
      canceler;

      constructor({ transform, flush, cancel }, self, { writableMark, writableSize, readableMark, readableSize }) {
        this.self = self;
        this.transformer = transform;
        this.flusher = flush;
        this.canceler = cancel;
        const sink = {
          __proto__: null,
          write: (chunk) => this.sinkWriteAlgorithm(chunk),
          close: () => this.sinkCloseAlgorithm(),
          abort: (reason) => this.sinkAbortAlgorithm(reason),
        };
        const source = {
          __proto__: null,
          pull: () => this.sourcePullAlgorithm(),
          cancel: (reason) => this.sourceCancelAlgorithm(reason),
        };
        new writables.Controller(this.writable, sink, undefined, writableMark, writableSize);
        new DefaultController(this.readable, source, undefined, readableMark, readableSize);
      }

      // Calls `start`, and throws its exception to the caller. `handle` must be set.
      start(algorithm) {
        let promise, resolve;
        if (algorithm !== null) ({ promise, resolve } = PromiseWithResolvers());
        const started = algorithm === null ? null : () => promise;
        this.writable.controller.start(started);
        this.readable.controller.start(started);
        if (algorithm !== null) resolve(ReflectApply(algorithm, this.self, [this.handle]));
      }

      // ---- Calls by the transformer

      get desiredSize() {
        return this.readable.controller.desiredSize;
      }

      enqueue(chunk) {
        const { controller } = this.readable;
        if (!controller.canCloseOrEnqueue) throw new TypeError("TransformStream: the readable side is no longer open");
        try {
          controller.enqueue(chunk);
        } catch (error) {
          this.errorWritableAndUnblockWrite(error);
          throw this.readable.error;
        }
        if (!controller.shouldCallPull && !this.backpressure) this.setBackpressure(true);
      }

      error(reason) {
        this.readable.controller.error(reason);
        this.errorWritableAndUnblockWrite(reason);
      }

      terminate() {
        const { controller } = this.readable;
        if (controller.canCloseOrEnqueue) controller.close();
        this.errorWritableAndUnblockWrite(new TypeError("The TransformStream has been terminated"));
      }

      // ---- Between the sides

      setBackpressure(backpressure) {
        this.backpressure = backpressure;
        if (backpressure) {
          if (this.pulled) soon(this.readable.controller.pulled);
          this.pulled = false;
        } else if (this.waiting !== null) {
          soon(this.waiting);
          this.waiting = null;
        }
      }

      errorWritableAndUnblockWrite(reason) {
        this.clearAlgorithms();
        this.writable.controller.error(reason);
        this.unblockWrite();
      }

      // Resumes a waiting write, so that the write sees the failure of the stream.
      unblockWrite() {
        if (this.backpressure) this.setBackpressure(false);
      }

      clearAlgorithms() {
        this.transformer = this.flusher = this.canceler = this.self = null;
      }

      // ---- The writable side

      sinkWriteAlgorithm(chunk) {
        if (this.backpressure) {
          this.chunk = chunk;
          this.waiting = this.resume;
        } else {
          this.transform(chunk);
        }
        return LATER;
      }

      resume = () => {
        const { chunk, writable } = this;
        this.chunk = undefined;
        if (writable.state === ERRORING) writable.controller.failed(writable.error);
        else this.transform(chunk);
      };

      transform(chunk) {
        const { transformer } = this;
        let transformed;
        try {
          // Chunks pass unchanged if there is no transformer, or if `clearAlgorithms` has dropped
          // it.
          if (transformer === null) this.enqueue(chunk);
          else transformed = ReflectApply(transformer, this.self, [chunk, this.handle]);
        } catch (error) {
          transformed = PromiseReject(error);
        }
        if (transformed !== LATER) react(transformed, this.writable.controller.written, this.failed);
      }

      failed = (reason) => {
        this.error(reason);
        this.writable.controller.failed(reason);
      };

      sinkAbortAlgorithm(reason) {
        return this.finish(this.canceler, [reason], this.readable, () => this.readable.controller.error(reason), (error) => {
          this.readable.controller.error(error);
        });
      }

      sinkCloseAlgorithm() {
        return this.finish(this.flusher, [this.handle], this.readable, () => {
          const { controller } = this.readable;
          if (controller.canCloseOrEnqueue) controller.close();
        }, (error) => this.readable.controller.error(error));
      }

      // ---- The readable side

      sourcePullAlgorithm() {
        this.pulled = true;
        this.setBackpressure(false);
        return LATER;
      }

      sourceCancelAlgorithm(reason) {
        const errorWritableAndUnblockWrite = (error) => {
          this.writable.controller.error(error);
          this.unblockWrite();
        };
        const succeeded = () => errorWritableAndUnblockWrite(reason);
        return this.finish(this.canceler, [reason], this.writable, succeeded, errorWritableAndUnblockWrite);
      }

      // Runs the final algorithm once. Calls `succeeded()` if the algorithm succeeds and the other
      // side has not failed in the meantime, and `failed(reason)` if the algorithm fails.
      finish(algorithm, args, other, succeeded, failed) {
        if (this.finishing !== null) return this.finishing.promise;
        const { promise, resolve, reject } = (this.finishing = PromiseWithResolvers());
        const result = invoke(algorithm, this.self, args);
        this.clearAlgorithms();
        const errored = other === this.readable ? ERRORED : writables.ERRORED;
        react(result, () => {
          if (other.state === errored) return void reject(other.error);
          succeeded();
          resolve();
        }, (reason) => {
          failed(reason);
          reject(reason);
        });
        return promise;
      }
    }

    // Creates a stream with built-in algorithms, each of which may be omitted. If `transform`
    // returns LATER, it later calls either `writable.controller.written()` or `failed(reason)` on
    // the stream.
    function createTransformStream({
      transform = null, flush = null, cancel = null, start = null, writableMark = 1,
      readableMark = 0,
    }) {
      const algorithms = { __proto__: null, transform, flush, cancel };
      const marks = { __proto__: null, writableMark, writableSize: null, readableMark, readableSize: null };
      const stream = new Transform(algorithms, undefined, marks);
      stream.start(start);
      return stream;
    }

    return { __proto__: null, Transform, createTransformStream };
  });

  internal.later("streamsTransformApi", ["TransformStream", "TransformStreamDefaultController"], () => {
    const { WRAP, callback, highWaterMarkOf, strategy: strategyOf } = internal.streamsBase();
    const { Transform } = internal.streamsTransform();
    const { wrap: wrapReadable } = internal.streamsReadableApi();
    const { wrap: wrapWritable } = internal.streamsWritableApi();

    let recordOf; // returns null for other values
    let isController;

    class TransformStream {
      #transform;

      static {
        recordOf = (value) => (isObject(value) && #transform in value ? value.#transform : null);
      }

      constructor(transformer = undefined, writableStrategy = undefined, readableStrategy = undefined) {
        if (transformer === WRAP) {
          this.#transform = writableStrategy;
          return;
        }
        if (transformer !== undefined && !isObject(transformer)) {
          throw new TypeError("TransformStream: the transformer is not an object");
        }
        const writable = strategyOf(writableStrategy, "TransformStream");
        const readable = strategyOf(readableStrategy, "TransformStream");
        this.#transform = fromTransformer(transformer, writable, readable);
      }

      get readable() {
        return wrapReadable(this.#transform.readable);
      }

      get writable() {
        return wrapWritable(this.#transform.writable);
      }
    }
    expose(TransformStream);

    function fromTransformer(transformer, writable, readable) {
      const algorithms = { __proto__: null, transform: null, flush: null, cancel: null };
      let start = null;
      if (transformer !== undefined) {
        algorithms.cancel = callback(transformer.cancel, "TransformStream: the transformer's cancel");
        algorithms.flush = callback(transformer.flush, "TransformStream: the transformer's flush");
        const { readableType } = transformer;
        start = callback(transformer.start, "TransformStream: the transformer's start");
        algorithms.transform = callback(transformer.transform, "TransformStream: the transformer's transform");
        const { writableType } = transformer;
        if (readableType !== undefined) throw new RangeError("TransformStream: readableType is reserved; leave it out");
        if (writableType !== undefined) throw new RangeError("TransformStream: writableType is reserved; leave it out");
      }
      const readableMark = highWaterMarkOf(readable, 0);
      const writableMark = highWaterMarkOf(writable, 1);
      const marks = {
        __proto__: null, writableMark, writableSize: writable.size, readableMark, readableSize: readable.size,
      };
      const transform = new Transform(algorithms, transformer, marks);
      transform.handle = new TransformStreamDefaultController(WRAP, transform);
      transform.start(start);
      return transform;
    }

    class TransformStreamDefaultController {
      #transform;

      static {
        isController = (value) => isObject(value) && #transform in value;
      }

      constructor(key = undefined, transform = undefined) {
        if (key !== WRAP) throw new TypeError("Illegal constructor: a TransformStream gives its transformer the controller");
        this.#transform = transform;
      }

      get desiredSize() {
        return this.#transform.desiredSize;
      }

      enqueue(chunk = undefined) {
        this.#transform.enqueue(chunk);
      }

      error(reason = undefined) {
        this.#transform.error(reason);
      }

      terminate() {
        this.#transform.terminate();
      }
    }
    expose(TransformStreamDefaultController);

    const { movers } = internal;
    movers[movers.length++] = (value) => {
      const transform = recordOf(value);
      return transform === null ? null
        : () => new TransformStream(WRAP, internal.streamsTransfer().transform(transform));
    };
    internal.describe("TransformStream", (value) => recordOf(value) !== null, TransformStream, ["readable", "writable"]);
    internal.describe("TransformStreamDefaultController", (value) => isController(value), TransformStreamDefaultController,
      ["desiredSize"]);
    return {
      __proto__: null,
      TransformStream, TransformStreamDefaultController, recordOf, wrap: (transform) => new TransformStream(WRAP, transform),
    };
  });
})
