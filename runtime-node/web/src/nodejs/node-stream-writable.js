// node:stream: Writable.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, FunctionPrototypeSymbolHasInstance, ObjectDefineProperty, ObjectSetPrototypeOf, Promise,
    ReflectApply, SymbolAsyncDispose, SymbolHasInstance } = internal.primordials;

  internal.define("writable", () => {
    const { abortError, defineHidden, invalid } = internal.node;
    const shared = internal.use("streamShared");
    const { beginLifecycle, construct, errors, fail, highWaterMark, nextTick } = shared;
    const { Buffer } = internal.use("buffer");
    const EventEmitter = internal.use("events");
    const Stream = internal.use("legacyStream");

    const { Queue } = internal.use("readableState");

    const noop = () => {};

    class WritableState {
      constructor(options, stream, isDuplex) {
        defineHidden(this, { lifecycle: beginLifecycle(stream, options) });
        this.objectMode = !!(options?.objectMode || (isDuplex && options?.writableObjectMode));
        this.highWaterMark = highWaterMark(options, this.objectMode, "writableHighWaterMark", isDuplex);
        this.decodeStrings = options?.decodeStrings !== false;
        this.defaultEncoding = options?.defaultEncoding ?? "utf8";
        this.length = 0;
        // The queue of waiting chunks: {chunk, encoding, callback}.
        this.buffered = /** @type {InstanceType<typeof Queue> & Iterable<any>} */ (new Queue());
        this.flushing = false;
        this.corked = 0;
        // True while `_write` or `_writev` is in progress.
        this.writing = false;
        this.sync = true;
        this.writelen = 0;
        this.needDrain = false;
        this.writable = options?.writable !== false;
        // `ending`: `end` was called, and no further write is accepted; `ended`: that call has also
        // checked whether the stream is finished.
        this.ending = false;
        this.ended = false;
        this.finalCalled = false;
        this.prefinished = false;
        this.finished = false;
        // The number of callbacks yet to be called.
        this.pendingcb = 0;
        this.onFinished = [];
        // Callbacks of finished writes, which are called together in the next tick.
        this.afterWriteCallbacks = null;
      }
      getBuffer() {
        return [...this.buffered];
      }
      get bufferedRequestCount() {
        return this.buffered.length;
      }
    }
    shared.exposeLifecycle(WritableState);

    /** @returns {void} */
    function Writable(options) {
      const isDuplex = this instanceof internal.use("duplex").Duplex;
      if (!isDuplex && !isOwn(this)) return new Writable(options);
      if (this._events === undefined) ReflectApply(Stream, this, [options]);
      defineHidden(this, { _writableState: new WritableState(options, this, isDuplex) });
      if (!isDuplex) {
        shared.adopt(this, options, ["write", "writev", "destroy", "final", "construct"]);
        construct(this, () => onConstructed(this));
      }
    }
    Writable.WritableState = WritableState;
    ObjectSetPrototypeOf(Writable.prototype, Stream.prototype);
    ObjectSetPrototypeOf(Writable, Stream);
    const isOwn = (value) => FunctionPrototypeSymbolHasInstance(Writable, value);
    // A Duplex counts as an instance, although it inherits from Readable.
    ObjectDefineProperty(Writable, SymbolHasInstance, {
      __proto__: null,
      value(value) {
        if (FunctionPrototypeSymbolHasInstance(this, value)) return true;
        return this === Writable && value?._writableState instanceof WritableState;
      },
    });

    const onConstructed = (stream) => {
      if (!stream._writableState.writing) writeBuffered(stream);
      maybeFinish(stream);
    };

    // ---- Writes

    function write(chunk, encoding, callback) {
      return put(this, chunk, encoding, callback) === true;
    }

    // Queues or writes a chunk. Returns whether there is room for more, or an error.
    function put(stream, chunk, encoding, callback) {
      const state = stream._writableState;
      if (typeof encoding === "function") {
        callback = encoding;
        encoding = undefined;
      }
      if (!encoding) encoding = state.defaultEncoding;
      else if (encoding !== "buffer" && !Buffer.isEncoding(encoding)) throw errors.encoding(encoding);
      if (typeof callback !== "function") callback = noop;
      if (chunk === null) throw errors.nullValues();
      if (!state.objectMode) {
        if (typeof chunk === "string") {
          if (state.decodeStrings) {
            chunk = Buffer.from(chunk, encoding);
            encoding = "buffer";
          }
        } else if (Buffer.isBuffer(chunk)) encoding = "buffer";
        else if (ArrayBufferIsView(chunk)) {
          chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
          encoding = "buffer";
        } else throw invalid("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
      }
      const error = state.ending ? errors.writeAfterEnd() : state.destroyed ? errors.destroyed("write") : null;
      if (error !== null) {
        nextTick(callback, error);
        fail(stream, error, true);
        return error;
      }
      state.pendingcb++;
      const length = state.objectMode ? 1 : chunk.length;
      state.length += length;
      const room = state.length < state.highWaterMark;
      if (!room) state.needDrain = true;
      if (state.writing || state.corked > 0 || state.errored || !state.constructed) {
        state.buffered.add({ chunk, encoding, callback });
      } else {
        send(stream, length, callback, (written) => stream._write(chunk, encoding, written));
      }
      return room && !state.errored && !state.destroyed;
    }

    // Starts a `_write` or `_writev` with `start`. Calls `callback` when the write is done.
    function send(stream, length, callback, start) {
      const state = stream._writableState;
      state.writelen = length;
      state.writing = true;
      state.sync = true;
      let called = false;
      const written = (error = undefined) => {
        if (called) {
          fail(stream, errors.multiple());
          return;
        }
        called = true;
        const { sync } = state;
        state.writing = false;
        state.length -= length;
        state.writelen = 0;
        if (error) {
          error.stack; // captures the stack
          state.errored ??= error;
          if (stream._readableState !== undefined) stream._readableState.errored ??= error;
          if (sync) nextTick(writeFailed, stream, error, callback);
          else writeFailed(stream, error, callback);
          return;
        }
        if (state.buffered.length > 0) writeBuffered(stream);
        if (!sync) afterWrites(stream, [callback]);
        else if (state.afterWriteCallbacks !== null) state.afterWriteCallbacks.push(callback);
        else {
          state.afterWriteCallbacks = [callback];
          nextTick(() => {
            const { afterWriteCallbacks } = state;
            state.afterWriteCallbacks = null;
            afterWrites(stream, afterWriteCallbacks);
          });
        }
      };
      if (state.destroyed) written(errors.destroyed("write"));
      else start(written);
      state.sync = false;
    }

    function writeFailed(stream, error, callback) {
      stream._writableState.pendingcb--;
      callback(error);
      dropBuffered(stream);
      fail(stream, error);
    }

    function afterWrites(stream, callbacks) {
      const state = stream._writableState;
      if (!state.ending && !stream.destroyed && state.length === 0 && state.needDrain) {
        state.needDrain = false;
        stream.emit("drain");
      }
      for (let i = 0; i < callbacks.length; i++) {
        state.pendingcb--;
        callbacks[i](state.errored ?? null);
      }
      if (state.destroyed) dropBuffered(stream);
      maybeFinish(stream);
    }

    // Calls the callbacks of writes, and of `end`, that will not happen, with the reason.
    function dropBuffered(stream) {
      const state = stream._writableState;
      if (state.writing) return;
      const dropped = state.buffered.takeAll();
      for (let i = 0; i < dropped.length; i++) {
        const { chunk, callback } = dropped[i];
        state.length -= state.objectMode ? 1 : chunk.length;
        state.pendingcb--;
        callback(state.errored ?? errors.destroyed("write"));
      }
      const waiting = state.onFinished;
      state.onFinished = [];
      for (let i = 0; i < waiting.length; i++) waiting[i](state.errored ?? errors.destroyed("end"));
    }

    function writeBuffered(stream) {
      const state = stream._writableState;
      // If a write completes synchronously, the loop below continues with the next one, so that the
      // stack does not grow.
      if (state.flushing || state.corked > 0 || state.destroyed || !state.constructed) return;
      if (typeof stream._writev === "function" && state.buffered.length > 1) {
        const all = state.buffered.takeAll();
        state.pendingcb -= all.length - 1;
        all.allBuffers = all.every(({ encoding }) => encoding === "buffer");
        const callback = (error) => {
          for (let i = 0; i < all.length; i++) all[i].callback(error);
        };
        send(stream, state.length, callback, (written) => stream._writev(all, written));
        return;
      }
      state.flushing = true;
      while (state.buffered.length > 0 && !state.writing && !state.errored) {
        const { chunk, encoding, callback } = state.buffered.take();
        send(stream, state.objectMode ? 1 : chunk.length, callback, (written) => stream._write(chunk, encoding, written));
      }
      state.flushing = false;
    }

    // ---- The end

    function end(chunk, encoding, callback) {
      const state = this._writableState;
      if (typeof chunk === "function") {
        callback = chunk;
        chunk = encoding = undefined;
      } else if (typeof encoding === "function") {
        callback = encoding;
        encoding = undefined;
      }
      let error = null;
      if (chunk !== undefined && chunk !== null) {
        const done = put(this, chunk, encoding);
        if (typeof done !== "boolean") error = done;
      }
      if (state.corked > 0) {
        state.corked = 1;
        this.uncork();
      }
      if (error === null && !state.errored && !state.ending) {
        state.ending = true;
        maybeFinish(this, true);
        state.ended = true;
      } else if (error === null && state.finished) error = errors.alreadyFinished("end");
      else if (error === null && state.destroyed) error = errors.destroyed("end");
      if (typeof callback === "function") {
        if (error !== null) nextTick(callback, error);
        else if (state.finished) nextTick(callback);
        else state.onFinished.push(callback);
      }
      return this;
    }

    const isDone = (state) =>
      state.ending && !state.destroyed && state.constructed && state.length === 0 && !state.errored && state.buffered.length === 0 &&
      !state.finished && !state.writing && !state.errorEmitted && !state.closeEmitted;

    function maybeFinish(stream, sync = false) {
      const state = stream._writableState;
      if (!isDone(state)) return;
      if (!state.prefinished && !state.finalCalled) {
        if (typeof stream._final === "function" && !state.destroyed) finalize(stream);
        else {
          state.prefinished = true;
          stream.emit("prefinish");
        }
      }
      if (state.pendingcb > 0 || !state.prefinished || !isDone(state)) return;
      state.pendingcb++;
      const last = () => {
        if (isDone(state)) finish(stream);
        else state.pendingcb--;
      };
      if (sync) nextTick(last);
      else last();
    }

    function finalize(stream) {
      const state = stream._writableState;
      state.finalCalled = true;
      state.pendingcb++;
      let called = false;
      const done = (error = undefined) => {
        if (called) {
          fail(stream, error ?? errors.multiple());
          return;
        }
        called = true;
        state.pendingcb--;
        if (error) {
          const waiting = state.onFinished;
          state.onFinished = [];
          for (let i = 0; i < waiting.length; i++) waiting[i](error);
          fail(stream, error, state.sync);
        } else if (isDone(state)) {
          state.prefinished = true;
          stream.emit("prefinish");
          nextTick(() => maybeFinish(stream));
        }
      };
      state.sync = true;
      try {
        stream._final(done);
      } catch (error) {
        done(error);
      }
      state.sync = false;
    }

    function finish(stream) {
      const state = stream._writableState;
      state.pendingcb--;
      state.finished = true;
      const waiting = state.onFinished;
      state.onFinished = [];
      for (let i = 0; i < waiting.length; i++) waiting[i](null);
      stream.emit("finish");
      const reading = stream._readableState;
      if (state.autoDestroy && (reading === undefined || (reading.autoDestroy && (reading.endEmitted || !reading.readable)))) {
        stream.destroy();
      }
    }

    const members = {
      write, end,
      _write(chunk, encoding, callback) {
        if (typeof this._writev !== "function") throw errors.unimplemented("_write()");
        this._writev([{ chunk, encoding }], callback);
      },
      _writev: null,
      cork() {
        this._writableState.corked++;
      },
      uncork() {
        const state = this._writableState;
        if (state.corked === 0) return;
        state.corked--;
        if (!state.writing) writeBuffered(this);
      },
      setDefaultEncoding(encoding) {
        const name = typeof encoding === "string" ? encoding.toLowerCase() : encoding;
        if (!Buffer.isEncoding(name)) throw errors.encoding(encoding);
        this._writableState.defaultEncoding = name;
        return this;
      },
      pipe() {
        fail(this, errors.cannotPipe());
      },
      destroy(error, callback) {
        const state = this._writableState;
        if (!state.destroyed && (state.buffered.length > 0 || state.onFinished.length > 0)) nextTick(dropBuffered, this);
        return ReflectApply(shared.destroy, this, [error, callback]);
      },
      _undestroy: shared.undestroy,
      _destroy(error, done) {
        done(error);
      },
      [EventEmitter.captureRejectionSymbol](error) {
        this.destroy(error);
      },
      async [SymbolAsyncDispose]() {
        const error = this.writableFinished ? null : abortError();
        if (!this.destroyed) this.destroy(error);
        await new Promise((resolve, reject) => {
          internal.use("finished")(this, (failure) => (failure && failure !== error ? reject(failure) : resolve()));
        });
      },
    };
    defineHidden(Writable.prototype, members);
    Writable.fromWeb = (stream, options) => internal.use("streamWeb").writableFromWeb(stream, options);
    Writable.toWeb = (stream) => internal.use("streamWeb").writableToWeb(stream);
    defineHidden(Writable.prototype, internal.use("writableProperties"));
    return { Writable, members, onConstructed };
  });
})
