// node:stream: the code that the readable and the writable side of a stream share.
//
// A stream has one lifecycle, regardless of its sides: it is constructed, may fail once, is
// destroyed, and is closed. The state object of each side exposes it under the names that packages
// use.
//: module
(function (internal) {
  "use strict";

  const { Error, ObjectDefineProperty, Symbol, TypeError } = internal.primordials;

  internal.define("streamShared", () => {
    const { coded, invalid, needFunction, needSignal, abortError, badValue } = internal.node;
    const { nextTick } = internal.use("process");

    const LIFECYCLE = Symbol("lifecycle");
    const CONSTRUCTED = Symbol("constructed");
    const DEFAULTS = { __proto__: null, bytes: 65536, objects: 16 };

    class Lifecycle {
      constructed = true;
      destroyed = false;
      errored = null;
      errorEmitted = false;
      closed = false;
      closeEmitted = false;
      autoDestroy;
      emitClose;
      constructor(options) {
        this.autoDestroy = options?.autoDestroy !== false;
        this.emitClose = options?.emitClose !== false;
      }
    }
    const NAMES = ["constructed", "destroyed", "errored", "errorEmitted", "closed", "closeEmitted", "autoDestroy", "emitClose"];

    const lifecycleOf = (stream) => stream[LIFECYCLE];

    // Starts the lifecycle of a stream, unless the other side of the stream has started it.
    function beginLifecycle(stream, options) {
      if (stream[LIFECYCLE] === undefined) {
        ObjectDefineProperty(stream, LIFECYCLE, { __proto__: null, value: new Lifecycle(options), writable: true, configurable: true });
      }
      return stream[LIFECYCLE];
    }

    // Defines accessors on a state class that expose the lifecycle's properties.
    function exposeLifecycle(State) {
      for (let i = 0; i < NAMES.length; i++) {
        const name = NAMES[i];
        ObjectDefineProperty(State.prototype, name, {
          __proto__: null, configurable: true, enumerable: true,
          get() { return this.lifecycle[name]; },
          set(value) { this.lifecycle[name] = value; },
        });
      }
    }

    // Returns the high-water mark from the option for both sides, the option for this side, or the
    // default.
    function highWaterMark(options, objectMode, name, isDuplex) {
      const given = options?.highWaterMark ?? (isDuplex ? options?.[name] : undefined);
      if (given === undefined || given === null) return objectMode ? DEFAULTS.objects : DEFAULTS.bytes;
      if (typeof given !== "number" || !(given >= 0) || (given % 1 !== 0 && given !== Infinity)) {
        throw badValue(isDuplex && options.highWaterMark === undefined ? `options.${name}` : "options.highWaterMark", given);
      }
      return given;
    }
    function setDefaultHighWaterMark(objectMode, value) {
      if (typeof value !== "number" || !(value >= 0) || value % 1 !== 0) throw badValue("value", value);
      DEFAULTS[objectMode ? "objects" : "bytes"] = value;
    }

    // ---- Destruction

    function emitError(stream, error) {
      const lifecycle = lifecycleOf(stream);
      if (lifecycle.errorEmitted) return;
      lifecycle.errorEmitted = true;
      stream.emit("error", error);
    }
    function emitClose(stream) {
      const lifecycle = lifecycleOf(stream);
      lifecycle.closeEmitted = true;
      if (lifecycle.emitClose) stream.emit("close");
    }

    function recordError(lifecycle, error) {
      if (!error) return;
      error.stack; // captures the stack
      lifecycle.errored ??= error;
    }

    function tearDown(stream, error, done) {
      const lifecycle = lifecycleOf(stream);
      let called = false;
      const finish = (reason) => {
        if (called) return;
        called = true;
        recordError(lifecycle, reason);
        lifecycle.closed = true;
        if (typeof done === "function") done(reason);
        nextTick(() => {
          try {
            if (reason) emitError(stream, reason);
          } finally {
            emitClose(stream);
          }
        });
      };
      try {
        stream._destroy(error || null, finish);
      } catch (thrown) {
        finish(thrown);
      }
    }

    function destroy(error, done) {
      const lifecycle = lifecycleOf(this);
      if (lifecycle.destroyed) {
        if (typeof done === "function") done();
        return this;
      }
      recordError(lifecycle, error);
      lifecycle.destroyed = true;
      if (lifecycle.constructed) tearDown(this, error, done);
      else this.once(CONSTRUCTED, (reason) => tearDown(this, error ?? reason, done));
      return this;
    }

    function undestroy() {
      this[LIFECYCLE] = new Lifecycle(lifecycleOf(this));
    }

    // Fails the stream. If `sync` is true, the failure occurs within a call by the user, and the
    // event follows in the next tick.
    function fail(stream, error, sync = false) {
      const lifecycle = lifecycleOf(stream);
      if (lifecycle.destroyed) return;
      if (lifecycle.autoDestroy) {
        stream.destroy(error);
        return;
      }
      recordError(lifecycle, error);
      if (sync) nextTick(() => emitError(stream, error));
      else emitError(stream, error);
    }

    // If the stream has `_construct`, calls it, and `onConstructed` if it succeeds. Otherwise does
    // nothing.
    function construct(stream, onConstructed) {
      if (typeof stream._construct !== "function") return;
      const lifecycle = lifecycleOf(stream);
      stream.once(CONSTRUCTED, (error) => {
        if (!error) onConstructed();
      });
      // The other side has already started construction.
      if (!lifecycle.constructed) return;
      lifecycle.constructed = false;
      nextTick(() => {
        let called = false;
        const done = (error = undefined) => {
          if (called) {
            fail(stream, coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times"));
            return;
          }
          called = true;
          lifecycle.constructed = true;
          if (lifecycle.destroyed) stream.emit(CONSTRUCTED, error);
          else if (error) {
            fail(stream, error, true);
            stream.emit(CONSTRUCTED, error);
          } else nextTick(() => stream.emit(CONSTRUCTED));
        };
        try {
          stream._construct((error) => nextTick(done, error));
        } catch (error) {
          nextTick(done, error);
        }
      });
    }

    // ---- Predicates

    const isNodeStream = (value) =>
      typeof value === "object" && value !== null && (value[LIFECYCLE] !== undefined || value._readableState !== undefined ||
        value._writableState !== undefined || (typeof value.write === "function" && typeof value.on === "function") ||
        (typeof value.pipe === "function" && typeof value.on === "function"));
    const isReadableNode = (value) =>
      isNodeStream(value) && typeof value.pipe === "function" && typeof value.on === "function" &&
        (value._writableState === undefined || value._readableState?.readable !== false) &&
        (value._writableState === undefined || value._readableState !== undefined);
    const isWritableNode = (value) =>
      isNodeStream(value) && typeof value.write === "function" && (value._readableState === undefined || value._writableState?.writable !== false);
    const isIterable = (value) =>
      value !== null && value !== undefined && (typeof value[Symbol.asyncIterator] === "function" || typeof value[Symbol.iterator] === "function");
    const isWebReadable = (value) => internal.isReadableStream(value);
    const isWebWritable = (value) => internal.streams().isWritable(value);

    const predicates = {
      isDestroyed: (stream) => (isNodeStream(stream) ? stream.destroyed === true || lifecycleOf(stream)?.destroyed === true : null),
      isDisturbed: (stream) =>
        isWebReadable(stream) ? internal.streams().isDisturbed(stream)
          : !!(stream && (stream._readableState?.dataEmitted || stream.readableDidRead || stream.readableAborted)),
      isErrored: (stream) =>
        isWebReadable(stream) ? internal.streams().isErrored(stream)
          : !!(stream && (stream.readableErrored ?? stream.writableErrored ?? lifecycleOf(stream)?.errored)),
      isReadable: (stream) => {
        if (isWebReadable(stream)) return !internal.streams().isClosed(stream) && !internal.streams().isErrored(stream);
        if (typeof stream?.readable !== "boolean") return null;
        return isReadableNode(stream) && stream.readable && !stream.destroyed && !lifecycleOf(stream)?.errored &&
          !stream._readableState?.endEmitted;
      },
      isWritable: (stream) => {
        if (typeof stream?.writable !== "boolean") return null;
        return isWritableNode(stream) && stream.writable && !stream.destroyed && !stream._writableState?.ending;
      },
    };

    function addAbortSignal(signal, stream) {
      needSignal(signal, "signal");
      if (!isNodeStream(stream) && !isWebReadable(stream) && !isWebWritable(stream)) {
        throw invalid("stream", "an instance of ReadableStream, WritableStream, or Stream", stream);
      }
      const { isAborted, onAbort } = internal.abort();
      const aborted = () => {
        if (isNodeStream(stream)) stream.destroy(abortError(signal));
        else if (isWebReadable(stream)) internal.streams().cancel(stream, abortError(signal));
      };
      if (isAborted(signal)) aborted();
      else {
        const forget = onAbort(signal, aborted);
        if (isNodeStream(stream)) stream.once("close", forget);
      }
      return stream;
    }

    const errors = {
      alreadyFinished: (what) => coded(Error, "ERR_STREAM_ALREADY_FINISHED", `Cannot call ${what} after a stream was finished`),
      cannotPipe: () => coded(Error, "ERR_STREAM_CANNOT_PIPE", "Cannot pipe, not readable"),
      destroyed: (what) => coded(Error, "ERR_STREAM_DESTROYED", `Cannot call ${what} after a stream was destroyed`),
      multiple: () => coded(Error, "ERR_MULTIPLE_CALLBACK", "Callback called multiple times"),
      nullValues: () => coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream"),
      premature: () => coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close"),
      pushAfterEnd: () => coded(Error, "ERR_STREAM_PUSH_AFTER_EOF", "stream.push() after EOF"),
      unimplemented: (what) => coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", `The ${what} method is not implemented`),
      unshiftAfterEnd: () => coded(Error, "ERR_STREAM_UNSHIFT_AFTER_END_EVENT", "stream.unshift() after end event"),
      writeAfterEnd: () => coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end"),
      encoding: (name) => coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${name}`),
      missing: (name) => coded(TypeError, "ERR_MISSING_ARGS", `The "${name}" argument must be specified`),
    };

    // Installs the methods that `options` supplies in place of those of a subclass. If `options`
    // has a signal, it destroys the stream.
    function adopt(stream, options, methods) {
      for (let i = 0; i < methods.length; i++) {
        const given = options?.[methods[i]];
        if (typeof given === "function") stream[`_${methods[i]}`] = given;
      }
      if (options?.signal !== undefined && options.signal !== null) addAbortSignal(options.signal, stream);
    }

    return {
      __proto__: null,
      addAbortSignal, adopt, beginLifecycle, construct, destroy, emitClose, errors, exposeLifecycle, fail, highWaterMark, isIterable,
      isNodeStream, isReadableNode, isWebReadable, isWebWritable, isWritableNode, lifecycleOf, needFunction, nextTick, predicates,
      setDefaultHighWaterMark, undestroy,
      getDefaultHighWaterMark: (objectMode) => (objectMode ? DEFAULTS.objects : DEFAULTS.bytes),
    };
  });
})
