// node:stream: Readable, continued: its properties, pipes, iteration, and `wrap` for old streams.
//: module
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, ObjectGetPrototypeOf, Promise, ReflectApply, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, SymbolAsyncDispose, SymbolAsyncIterator } = internal.primordials;

  internal.define("readableRest", () => ({ Readable, flow }) => {
    const { abortError, needObject } = internal.node;
    const { nextTick } = internal.use("streamShared");

    // ---- Properties

    const properties = {
      get readable() {
        const state = this._readableState;
        return state !== undefined && state.readable && !state.destroyed && !state.errorEmitted && !state.endEmitted;
      },
      set readable(value) {
        if (this._readableState !== undefined) this._readableState.readable = !!value;
      },
      get readableDidRead() {
        return this._readableState.dataEmitted;
      },
      get readableAborted() {
        const state = this._readableState;
        return state.readable !== false && (state.destroyed || state.errored !== null) && !state.endEmitted;
      },
      get readableHighWaterMark() {
        return this._readableState.highWaterMark;
      },
      get readableBuffer() {
        return this._readableState?.buffer;
      },
      get readableFlowing() {
        return this._readableState.flowing;
      },
      set readableFlowing(value) {
        if (this._readableState !== undefined) this._readableState.flowing = value;
      },
      get readableLength() {
        return this._readableState.length;
      },
      get readableObjectMode() {
        return this._readableState?.objectMode ?? false;
      },
      get readableEncoding() {
        return this._readableState?.encoding ?? null;
      },
      get readableEnded() {
        return this._readableState?.endEmitted ?? false;
      },
      get errored() {
        return this._readableState?.errored ?? null;
      },
      get closed() {
        return this._readableState?.closed ?? false;
      },
      get destroyed() {
        return this._readableState?.destroyed ?? false;
      },
      set destroyed(value) {
        if (this._readableState !== undefined) this._readableState.destroyed = value;
      },
    };

    // ---- Pipes

    function pipe(destination, options = undefined) {
      const source = this;
      const state = source._readableState;
      state.pipes.push(destination);
      const endsDestination = options?.end !== false && !(options === undefined && isStandardOutput(destination));
      let cleaned = false;

      const onEnd = () => destination.end();
      const onUnpipe = (readable, info) => {
        if (readable !== source || info?.hasUnpiped !== false) return;
        info.hasUnpiped = true;
        clean();
      };
      const unpipe = () => source.unpipe(destination);
      let drained = null;
      const pauseUntilDrained = () => {
        if (cleaned) return;
        state.awaitDrainWriters.add(destination);
        source.pause();
        if (drained !== null) return;
        drained = () => {
          state.awaitDrainWriters.delete(destination);
          if (state.awaitDrainWriters.size > 0 || source.listenerCount("data") === 0) return;
          source.resume();
        };
        destination.on("drain", drained);
      };
      const onData = (chunk) => {
        if (destination.write(chunk) === false) pauseUntilDrained();
      };
      const onError = (error) => {
        unpipe();
        destination.removeListener("error", onError);
        if (destination.listenerCount("error") > 0) return;
        const writing = destination._writableState ?? destination._readableState;
        if (writing !== undefined && !writing.errorEmitted) destination.destroy(error);
        else destination.emit("error", error);
      };
      const onClose = () => {
        destination.removeListener("finish", onFinish);
        unpipe();
      };
      const onFinish = () => {
        destination.removeListener("close", onClose);
        unpipe();
      };
      function clean() {
        destination.removeListener("close", onClose);
        destination.removeListener("finish", onFinish);
        if (drained !== null) destination.removeListener("drain", drained);
        destination.removeListener("error", onError);
        destination.removeListener("unpipe", onUnpipe);
        source.removeListener("end", onEnd);
        source.removeListener("end", unpipe);
        source.removeListener("data", onData);
        cleaned = true;
        if (drained !== null && state.awaitDrainWriters.has(destination)) drained();
      }

      const atEnd = endsDestination ? onEnd : unpipe;
      if (state.endEmitted) nextTick(atEnd);
      else source.once("end", atEnd);
      destination.on("unpipe", onUnpipe);
      source.on("data", onData);
      destination.prependListener("error", onError);
      destination.once("close", onClose);
      destination.once("finish", onFinish);
      destination.emit("pipe", source);
      if (destination.writableNeedDrain === true) pauseUntilDrained();
      else if (!state.flowing) source.resume();
      return destination;
    }

    function isStandardOutput(destination) {
      const process = internal.use("process");
      return destination === process.stdout || destination === process.stderr;
    }

    function unpipe(destination = undefined) {
      const { pipes } = this._readableState;
      if (pipes.length === 0) return this;
      if (destination === undefined) {
        this._readableState.pipes = [];
        this.pause();
        for (let i = 0; i < pipes.length; i++) pipes[i].emit("unpipe", this, { hasUnpiped: false });
        return this;
      }
      const at = pipes.indexOf(destination);
      if (at < 0) return this;
      pipes.splice(at, 1);
      if (pipes.length === 0) this.pause();
      destination.emit("unpipe", this, { hasUnpiped: false });
      return this;
    }

    // ---- Iteration

    async function* iterate(stream, destroyOnReturn) {
      let resolvePending = null;
      const wake = () => {
        const waiting = resolvePending;
        resolvePending = null;
        waiting?.();
      };
      // How the stream ended. undefined: not yet; null: without an error; otherwise the error.
      let outcome;
      const forget = internal.use("finished")(stream, { writable: false }, (error) => {
        outcome = error ?? null;
        wake();
      });
      stream.on("readable", wake);
      try {
        for (;;) {
          const chunk = stream.destroyed ? null : stream.read();
          if (chunk !== null) yield chunk;
          else if (outcome) throw outcome;
          else if (outcome === null) return;
          else await new Promise((resolve) => (resolvePending = resolve));
        }
      } catch (error) {
        outcome = error;
        throw error;
      } finally {
        if ((outcome || destroyOnReturn) && (outcome === undefined || outcome || stream._readableState?.autoDestroy)) {
          stream.destroy(outcome && outcome !== stream.errored ? outcome : null);
        } else {
          stream.removeListener("readable", wake);
          forget();
        }
      }
    }

    function iterator(options = undefined) {
      if (options !== undefined) needObject(options, "options");
      const readable = typeof this.read === "function" ? this : Readable.wrap(this);
      /** @type {AsyncGenerator & { stream?: any }} */
      const iterating = iterate(readable, options?.destroyOnReturn !== false);
      iterating.stream = readable;
      return iterating;
    }

    // ---- Streams from before `read()` existed

    function wrap(old) {
      let paused = false;
      old.on("data", (chunk) => {
        if (!this.push(chunk) && typeof old.pause === "function") {
          paused = true;
          old.pause();
        }
      });
      old.on("end", () => this.push(null));
      old.on("error", (error) => this.destroy(error));
      old.on("close", () => this.destroy());
      old.on("destroy", () => this.destroy());
      this._read = () => {
        if (!paused || typeof old.resume !== "function") return;
        paused = false;
        old.resume();
      };
      // Forwards the old stream's other methods.
      const names = [...ReflectOwnKeys(old), ...ReflectOwnKeys(ObjectGetPrototypeOf(old))];
      for (let i = 0; i < names.length; i++) {
        const name = names[i];
        if (typeof name === "string" && this[name] === undefined && typeof old[name] === "function") {
          this[name] = (...args) => ReflectApply(old[name], old, args);
        }
      }
      return this;
    }

    Readable.wrap = (old, options) =>
      new Readable({
        objectMode: old.readableObjectMode ?? old.objectMode ?? true,
        ...options,
        destroy(error, done) {
          old.destroy?.(error);
          done(error);
        },
      }).wrap(old);
    Readable.from = (source, options) => internal.use("streamFrom")(Readable, source, options);
    Readable.fromWeb = (stream, options) => internal.use("streamWeb").readableFromWeb(stream, options);
    Readable.toWeb = (stream, options) => internal.use("streamWeb").readableToWeb(stream, options);

    const members = {
      pipe, unpipe, wrap, iterator,
      [SymbolAsyncIterator]() {
        return ReflectApply(iterator, this, []);
      },
      async [SymbolAsyncDispose]() {
        const error = this.readableEnded ? null : abortError();
        if (!this.destroyed) this.destroy(error);
        await new Promise((resolve, reject) => {
          internal.use("finished")(this, (failure) => (failure && failure !== error ? reject(failure) : resolve()));
        });
      },
    };
    const names = ReflectOwnKeys(properties);
    for (let i = 0; i < names.length; i++) {
      ObjectDefineProperty(members, names[i], ReflectGetOwnPropertyDescriptor(properties, names[i]));
    }
    const operators = internal.use("streamOperators")();
    const all = ReflectOwnKeys(operators);
    for (let i = 0; i < all.length; i++) members[all[i]] = operators[all[i]];
    return members;
  });
})
