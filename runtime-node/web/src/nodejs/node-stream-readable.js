// node:stream: Readable.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, MathMin, NumberIsNaN, ObjectSetPrototypeOf, ReflectApply } = internal.primordials;

  internal.define("readable", () => {
    const { defineHidden, invalid } = internal.node;
    const shared = internal.use("streamShared");
    const { construct, errors, fail, nextTick } = shared;
    const { Buffer } = internal.use("buffer");
    const { StringDecoder } = internal.use("string_decoder");
    const EventEmitter = internal.use("events");
    const Stream = internal.use("legacyStream");
    const { ReadableState, joined } = internal.use("readableState");

    // The maximum to which `read(n)` raises the high-water mark, in bytes or code units.
    const MAX_HIGH_WATER_MARK = 0x40000000;
    /** @returns {void} */
    function Readable(options) {
      if (!(this instanceof Readable)) return new Readable(options);
      const isDuplex = this instanceof internal.use("duplex").Duplex;
      if (this._events === undefined) ReflectApply(Stream, this, [options]);
      defineHidden(this, { _readableState: new ReadableState(options, this, isDuplex) });
      if (!isDuplex) {
        shared.adopt(this, options, ["read", "destroy", "construct"]);
        construct(this, () => maybeReadMore(this));
      }
    }
    Readable.ReadableState = ReadableState;
    ObjectSetPrototypeOf(Readable.prototype, Stream.prototype);
    ObjectSetPrototypeOf(Readable, Stream);

    // ---- Input

    // Converts a chunk to the form in which the stream stores it. Throws if the value is not a
    // valid chunk.
    function chunkOf(state, chunk, encoding) {
      if (typeof chunk === "string") {
        const from = encoding || state.defaultEncoding;
        if (state.encoding === from) return chunk;
        const bytes = Buffer.from(chunk, from);
        return state.encoding && state.decoder === null ? bytes.toString(state.encoding) : bytes;
      }
      if (Buffer.isBuffer(chunk)) return chunk;
      if (ArrayBufferIsView(chunk)) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      throw invalid("chunk", "of type string or an instance of Buffer, TypedArray, or DataView", chunk);
    }

    // Adds a chunk to the buffer, at the front if `front` is true, or emits it. The chunk null ends
    // the input. Returns whether the stream wants more.
    function put(stream, chunk, encoding, front) {
      const state = stream._readableState;
      if (chunk === null) {
        state.reading = false;
        endInput(stream);
        return false;
      }
      if (!state.objectMode) {
        try {
          chunk = chunkOf(state, chunk, encoding);
        } catch (error) {
          fail(stream, error);
          return false;
        }
        if (chunk.length === 0) {
          if (!front) {
            state.reading = false;
            maybeReadMore(stream);
          }
          return wantsMore(state);
        }
      } else if (chunk === undefined && !front) {
        state.reading = false;
        maybeReadMore(stream);
        return wantsMore(state);
      }
      if (front ? state.endEmitted : state.ended) {
        fail(stream, front ? errors.unshiftAfterEnd() : errors.pushAfterEnd());
        return false;
      }
      if (state.destroyed || state.errored) return false;
      if (!front) {
        state.reading = false;
        if (state.decoder !== null && typeof chunk !== "string") {
          chunk = state.decoder.write(chunk);
          if (!state.objectMode && chunk.length === 0) {
            maybeReadMore(stream);
            return wantsMore(state);
          }
        }
      }
      if (!front && state.flowing && state.length === 0 && !state.sync && stream.listenerCount("data") > 0) {
        state.awaitDrainWriters.clear();
        state.dataEmitted = true;
        stream.emit("data", chunk);
      } else {
        state.length += state.objectMode ? 1 : chunk.length;
        if (front) state.buffer.addFirst(chunk);
        else state.buffer.add(chunk);
        if (state.needReadable) emitReadable(stream);
      }
      maybeReadMore(stream);
      return wantsMore(state);
    }
    const wantsMore = (state) => !state.ended && (state.length < state.highWaterMark || state.length === 0);

    function endInput(stream) {
      const state = stream._readableState;
      if (state.ended) return;
      if (state.decoder !== null) {
        const tail = state.decoder.end();
        if (tail.length > 0) {
          state.buffer.add(tail);
          state.length += state.objectMode ? 1 : tail.length;
        }
      }
      state.ended = true;
      if (state.sync) emitReadable(stream);
      else {
        state.needReadable = false;
        state.emittedReadable = true;
        emitReadableNow(stream);
      }
    }

    // Reads ahead up to the high-water mark.
    function maybeReadMore(stream) {
      const state = stream._readableState;
      if (state.readingMore || !state.constructed) return;
      state.readingMore = true;
      nextTick(() => {
        while (!state.reading && !state.ended && (state.length < state.highWaterMark || (state.flowing && state.length === 0))) {
          const before = state.length;
          stream.read(0);
          if (state.length === before) break;
        }
        state.readingMore = false;
      });
    }

    // ---- Output

    function emitReadable(stream) {
      const state = stream._readableState;
      state.needReadable = false;
      if (state.emittedReadable) return;
      state.emittedReadable = true;
      nextTick(emitReadableNow, stream);
    }
    function emitReadableNow(stream) {
      const state = stream._readableState;
      if (!state.destroyed && !state.errored && (state.length > 0 || state.ended)) {
        stream.emit("readable");
        state.emittedReadable = false;
      }
      state.needReadable = !state.flowing && !state.ended && state.length <= state.highWaterMark;
      flow(stream);
    }
    function flow(stream) {
      const state = stream._readableState;
      while (state.flowing && stream.read() !== null);
    }

    // Returns the amount that `read(n)` takes; NaN stands for no argument.
    function amountToRead(state, n) {
      if (n <= 0 || (state.length === 0 && state.ended)) return 0;
      if (state.objectMode) return 1;
      if (NumberIsNaN(n)) return state.flowing && state.length > 0 ? state.buffer.first().length : state.length;
      if (n <= state.length) return n;
      return state.ended ? state.length : 0;
    }

    function read(n = undefined) {
      const state = this._readableState;
      const requested = n === undefined ? NaN : +n;
      if (requested > state.highWaterMark && !state.objectMode) {
        let mark = 1;
        while (mark < MathMin(requested, MAX_HIGH_WATER_MARK)) mark *= 2;
        state.highWaterMark = mark;
      }
      if (requested !== 0) state.emittedReadable = false;
      else if (state.needReadable && (state.ended || (state.highWaterMark !== 0 ? state.length >= state.highWaterMark : state.length > 0))) {
        if (state.length === 0 && state.ended) end(this);
        else emitReadable(this);
        return null;
      }
      let count = amountToRead(state, requested);
      if (count === 0 && state.ended) {
        if (state.length === 0) end(this);
        return null;
      }
      const wants = state.needReadable || state.length === 0 || state.length - count < state.highWaterMark;
      if (wants && !state.ended && !state.reading && !state.destroyed && !state.errored && state.constructed) {
        state.reading = true;
        state.sync = true;
        if (state.length === 0) state.needReadable = true;
        try {
          this._read(state.highWaterMark);
        } catch (error) {
          fail(this, error);
        }
        state.sync = false;
        if (!state.reading) count = amountToRead(state, requested);
      }
      let chunk = null;
      if (count > 0 && state.length > 0) {
        if (state.objectMode) chunk = state.buffer.take();
        else if (count >= state.length) {
          count = state.length;
          chunk = state.buffer.length === 1 ? state.buffer.take() : joined(state.buffer.takeAll());
        } else chunk = state.buffer.takeUnits(count);
      }
      if (chunk === null) {
        state.needReadable = state.length <= state.highWaterMark;
        count = 0;
      } else {
        state.length -= count;
        state.awaitDrainWriters.clear();
      }
      if (state.length === 0) {
        if (!state.ended) state.needReadable = true;
        if (requested !== count && state.ended) end(this);
      }
      if (chunk !== null && !state.errored && !state.closeEmitted) {
        state.dataEmitted = true;
        this.emit("data", chunk);
      }
      return chunk;
    }

    function end(stream) {
      const state = stream._readableState;
      if (state.endEmitted) return;
      state.ended = true;
      nextTick(() => {
        if (state.errored || state.closeEmitted || state.endEmitted || state.length > 0) return;
        state.endEmitted = true;
        stream.emit("end");
        const writing = stream._writableState;
        if (stream.writable && stream.allowHalfOpen === false) {
          nextTick(() => {
            if (stream.writable && !stream.writableEnded && !stream.destroyed) stream.end();
          });
        } else if (state.autoDestroy && (writing === undefined || (writing.autoDestroy && (writing.finished || !writing.writable)))) {
          stream.destroy();
        }
      });
    }

    // ---- Listeners

    function updateListening(stream) {
      const state = stream._readableState;
      state.readableListening = stream.listenerCount("readable") > 0;
      if (state.resumeScheduled && !state.paused) state.flowing = true;
      else if (stream.listenerCount("data") > 0) stream.resume();
      else if (!state.readableListening) state.flowing = null;
    }

    function on(type, listener) {
      const result = ReflectApply(Stream.prototype.on, this, [type, listener]);
      const state = this._readableState;
      if (type === "data") {
        state.readableListening = this.listenerCount("readable") > 0;
        if (state.flowing !== false) this.resume();
      } else if (type === "readable" && !state.endEmitted && !state.readableListening) {
        state.readableListening = state.needReadable = true;
        state.flowing = false;
        state.emittedReadable = false;
        if (state.length > 0) emitReadable(this);
        else if (!state.reading) nextTick(() => this.read(0));
      }
      return result;
    }
    function removeListener(type, listener) {
      const result = ReflectApply(Stream.prototype.removeListener, this, [type, listener]);
      if (type === "readable") nextTick(updateListening, this);
      return result;
    }

    const members = {
      read, on, addListener: on, removeListener, off: removeListener,
      _read() {
        throw errors.unimplemented("_read()");
      },
      push(chunk, encoding) {
        return put(this, chunk, encoding, false);
      },
      unshift(chunk, encoding) {
        return put(this, chunk, encoding, true);
      },
      isPaused() {
        return this._readableState.paused === true || this._readableState.flowing === false;
      },
      setEncoding(encoding) {
        const state = this._readableState;
        state.decoder = new StringDecoder(encoding);
        state.encoding = state.decoder.encoding;
        const text = state.buffer.takeAll().map((chunk) => state.decoder.write(chunk)).join("");
        if (text !== "") state.buffer.add(text);
        state.length = text.length;
        return this;
      },
      resume() {
        const state = this._readableState;
        if (!state.flowing) {
          state.flowing = !state.readableListening;
          if (!state.resumeScheduled) {
            state.resumeScheduled = true;
            nextTick(() => {
              if (!state.reading) this.read(0);
              state.resumeScheduled = false;
              this.emit("resume");
              flow(this);
              if (state.flowing && !state.reading) this.read(0);
            });
          }
        }
        state.paused = false;
        return this;
      },
      pause() {
        const state = this._readableState;
        if (state.flowing !== false) {
          state.flowing = false;
          this.emit("pause");
        }
        state.paused = true;
        return this;
      },
      removeAllListeners(type) {
        const result = ReflectApply(Stream.prototype.removeAllListeners, this, arguments);
        if (type === "readable" || type === undefined) nextTick(updateListening, this);
        return result;
      },
      _destroy(error, done) {
        done(error);
      },
      destroy: shared.destroy,
      _undestroy: shared.undestroy,
      [EventEmitter.captureRejectionSymbol](error) {
        this.destroy(error);
      },
    };
    defineHidden(Readable.prototype, members);
    defineHidden(Readable.prototype, internal.use("readableRest")({ Readable, flow }));
    return /** @type {typeof Readable & Members} */ (Readable);
  });
})
