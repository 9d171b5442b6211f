// The public classes of byte streams: ReadableByteStreamController, ReadableStreamBYOBReader and
// ReadableStreamBYOBRequest (Streams §4.5, §4.7, §4.8).
//: late, after streams-readable-api.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayBufferPrototypeGetDetached, ArrayBufferPrototypeGetResizable, BigInt64Array,
    BigUint64Array, DataView, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
    DataViewPrototypeGetByteOffset, Float32Array, Float64Array, Int16Array, Int32Array, Int8Array,
    NumberMAX_SAFE_INTEGER, PromiseReject, RangeError, ReflectGetOwnPropertyDescriptor, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeGetSymbolToStringTag, Uint16Array, Uint32Array, Uint8Array, Uint8ClampedArray,
  } = internal.primordials;
  const { dictionary, enforced, expose, isObject, needs } = internal.webidl;

  internal.later(
    "streamsByobApi", ["ReadableByteStreamController", "ReadableStreamBYOBReader", "ReadableStreamBYOBRequest"],
    () => {
      const { WRAP } = internal.streamsBase();
      const {
        acquireReadableStreamReader, readableStreamCancel, readableStreamReaderRelease,
      } = internal.streamsReadable();
      const { readableStreamBYOBReaderRead } = internal.streamsBytes();
      const { Read, illegal, released, streamOf } = internal.streamsReadableApi();

      const CLASSES = {
        __proto__: null,
        BigInt64Array, BigUint64Array, Float32Array, Float64Array, Int16Array, Int32Array, Int8Array, Uint16Array, Uint32Array,
        Uint8Array, Uint8ClampedArray,
        // V8 adds Float16Array to a context after deserializing the snapshot. A Worker that
        // replaces this global gets views of its own class.
        Float16Array: ReflectGetOwnPropertyDescriptor(globalThis, "Float16Array")?.value,
      };
      const sizeOf = (name) => (name === "Float16Array" ? 2 : CLASSES[name].BYTES_PER_ELEMENT);

      // Returns {buffer, offset, length, elementSize, View} of an ArrayBufferView; the
      // numbers are in bytes. Runs no tenant code.
      function partsOf(view, what) {
        if (!ArrayBufferIsView(view)) throw new TypeError(`${what}: the argument is not a view of an ArrayBuffer`);
        const name = TypedArrayPrototypeGetSymbolToStringTag(view);
        const parts = name !== undefined
          ? {
            __proto__: null,
            buffer: TypedArrayPrototypeGetBuffer(view),
            offset: TypedArrayPrototypeGetByteOffset(view),
            length: TypedArrayPrototypeGetByteLength(view),
            elementSize: sizeOf(name),
            View: CLASSES[name],
          }
          : dataViewParts(view, what);
        let resizable = true;
        try {
          resizable = ArrayBufferPrototypeGetResizable(parts.buffer);
        } catch {
          // The getter throws for a SharedArrayBuffer, so `resizable` stays true.
        }
        if (resizable) throw new TypeError(`${what}: the view's memory is shared, or may change its size`);
        return parts;
      }

      function dataViewParts(view, what) {
        const buffer = DataViewPrototypeGetBuffer(view);
        try {
          const offset = DataViewPrototypeGetByteOffset(view);
          return { __proto__: null, buffer, offset, length: DataViewPrototypeGetByteLength(view), elementSize: 1, View: DataView };
        } catch {
          // The getters throw if the buffer is detached. Those of a typed array return 0 instead.
          throw new TypeError(`${what}: the view's buffer has been detached`);
        }
      }

      // Returns the parts of a view, which must be neither empty nor detached.
      function nonEmptyParts(view, what) {
        const parts = partsOf(view, what);
        if (ArrayBufferPrototypeGetDetached(parts.buffer)) {
          throw new TypeError(`${what}: the view's buffer has been detached`);
        }
        if (parts.length === 0) throw new TypeError(`${what}: the view is empty`);
        return parts;
      }

      let readerOf;
      let isController;
      let isRequest;

      class ReadableStreamBYOBReader {
        #reader;

        static {
          readerOf = (value) => (isObject(value) && #reader in value ? value.#reader : null);
        }

        constructor(stream, reader = undefined) {
          if (stream === WRAP) {
            this.#reader = reader;
            return;
          }
          needs(arguments.length, 1, "ReadableStreamBYOBReader");
          const record = streamOf(stream);
          if (record === null) throw new TypeError("ReadableStreamBYOBReader: the argument is not a ReadableStream");
          this.#reader = acquireReadableStreamReader(record, true);
        }

        get closed() {
          const reader = readerOf(this);
          return reader === null ? illegal("ReadableStreamBYOBReader.closed") : reader.closed.promise;
        }

        cancel(reason = undefined) {
          const reader = readerOf(this);
          if (reader === null) return illegal("ReadableStreamBYOBReader.cancel");
          if (reader.stream === null) return PromiseReject(released("ReadableStreamBYOBReader.cancel"));
          return readableStreamCancel(reader.stream, reason);
        }

        read(view, options = undefined) {
          const reader = readerOf(this);
          if (reader === null) return illegal("ReadableStreamBYOBReader.read");
          const request = new Read();
          try {
            needs(arguments.length, 1, "ReadableStreamBYOBReader.read");
            partsOf(view, "ReadableStreamBYOBReader.read");
            let { min } = dictionary(options, "ReadableStreamBYOBReader.read");
            min = min === undefined ? 1 : enforced(min, NumberMAX_SAFE_INTEGER, "ReadableStreamBYOBReader.read: min");
            // The getters of the options may have changed the view.
            const into = nonEmptyParts(view, "ReadableStreamBYOBReader.read");
            if (min === 0) throw new TypeError("ReadableStreamBYOBReader.read: min must be greater than 0");
            if (min > into.length / into.elementSize) {
              throw new RangeError("ReadableStreamBYOBReader.read: the view has no room for min elements");
            }
            if (reader.stream === null) throw released("ReadableStreamBYOBReader.read");
            readableStreamBYOBReaderRead(reader, into, min, request);
          } catch (error) {
            return PromiseReject(error);
          }
          return request.promise;
        }

        releaseLock() {
          const reader = this.#reader;
          if (reader.stream !== null) readableStreamReaderRelease(reader);
        }
      }
      expose(ReadableStreamBYOBReader);

      // The record of a ReadableStreamBYOBRequest. `controller` is null once the request has been
      // answered.
      class Request {
        controller;
        view;
        object = null;
        constructor(controller, view) {
          this.controller = controller;
          this.view = view;
        }
      }

      class ReadableStreamBYOBRequest {
        #request;

        static {
          isRequest = (value) => isObject(value) && #request in value;
        }

        constructor(key = undefined, request = undefined) {
          if (key !== WRAP) {
            throw new TypeError("Illegal constructor: use the byobRequest of a ReadableByteStreamController");
          }
          this.#request = request;
        }

        get view() {
          return this.#request.view;
        }

        respond(bytesWritten) {
          const request = this.#request;
          needs(arguments.length, 1, "ReadableStreamBYOBRequest.respond");
          const written = enforced(bytesWritten, NumberMAX_SAFE_INTEGER, "ReadableStreamBYOBRequest.respond");
          const { controller, view } = request;
          if (controller === null) throw new TypeError("ReadableStreamBYOBRequest.respond: this request has been answered");
          if (ArrayBufferPrototypeGetDetached(TypedArrayPrototypeGetBuffer(view))) {
            throw new TypeError("ReadableStreamBYOBRequest.respond: the view's buffer has been detached");
          }
          controller.respond(written);
        }

        respondWithNewView(view) {
          const request = this.#request;
          needs(arguments.length, 1, "ReadableStreamBYOBRequest.respondWithNewView");
          const parts = partsOf(view, "ReadableStreamBYOBRequest.respondWithNewView");
          const { controller } = request;
          if (controller === null) {
            throw new TypeError("ReadableStreamBYOBRequest.respondWithNewView: this request has been answered");
          }
          if (ArrayBufferPrototypeGetDetached(parts.buffer)) {
            throw new TypeError("ReadableStreamBYOBRequest.respondWithNewView: the view's buffer has been detached");
          }
          controller.respondWithNewView(parts);
        }
      }
      expose(ReadableStreamBYOBRequest);

      class ReadableByteStreamController {
        #controller;

        static {
          isController = (value) => isObject(value) && #controller in value;
        }

        constructor(key = undefined, controller = undefined) {
          if (key !== WRAP) throw new TypeError("Illegal constructor: a ReadableStream gives its source the controller");
          this.#controller = controller;
        }

        get byobRequest() {
          const controller = this.#controller;
          if (controller.request === null) {
            const view = controller.vacancy();
            if (view === null) return null;
            controller.request = new Request(controller, view);
          }
          return (controller.request.object ??= new ReadableStreamBYOBRequest(WRAP, controller.request));
        }

        get desiredSize() {
          return this.#controller.desiredSize;
        }

        close() {
          const controller = this.#controller;
          if (!controller.canCloseOrEnqueue) throw new TypeError("ReadableByteStreamController.close: the stream is no longer open");
          controller.close();
        }

        enqueue(chunk) {
          const controller = this.#controller;
          needs(arguments.length, 1, "ReadableByteStreamController.enqueue");
          const { buffer, offset, length } = nonEmptyParts(chunk, "ReadableByteStreamController.enqueue");
          if (!controller.canCloseOrEnqueue) {
            throw new TypeError("ReadableByteStreamController.enqueue: the stream is no longer open");
          }
          controller.transferAndEnqueue(buffer, offset, length);
        }

        error(e = undefined) {
          this.#controller.error(e);
        }
      }
      expose(ReadableByteStreamController);

      internal.describe("ReadableByteStreamController", (value) => isController(value), ReadableByteStreamController,
        ["byobRequest", "desiredSize"]);
      internal.describe("ReadableStreamBYOBRequest", (value) => isRequest(value), ReadableStreamBYOBRequest, ["view"]);
      internal.describeBy("ReadableStreamBYOBReader", (value) => readerOf(value) !== null,
        (value) => ["stream", readerOf(value).stream?.object ?? null]);

      return {
        __proto__: null,
        ReadableByteStreamController, ReadableStreamBYOBReader, ReadableStreamBYOBRequest,
        wrapController: (controller) => new ReadableByteStreamController(WRAP, controller),
        wrapReader: (reader) => new ReadableStreamBYOBReader(WRAP, reader),
      };
    },
  );
})
