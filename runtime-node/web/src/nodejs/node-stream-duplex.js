// node:stream: Duplex, Transform and PassThrough, and the properties of a Writable.
//: module
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, ObjectSetPrototypeOf, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys,
    Symbol } = internal.primordials;

  internal.define("writableProperties", () => ({
    get closed() { return this._writableState?.closed ?? false; },
    get destroyed() { return this._writableState?.destroyed ?? false; },
    set destroyed(value) { if (this._writableState !== undefined) this._writableState.destroyed = value; },
    get errored() { return this._writableState?.errored ?? null; },
    get writable() {
      const state = this._writableState;
      return state !== undefined && state.writable && !state.destroyed && !state.errored && !state.ending && !state.ended;
    },
    set writable(value) { if (this._writableState !== undefined) this._writableState.writable = !!value; },
    get writableFinished() { return this._writableState?.finished ?? false; },
    get writableObjectMode() { return this._writableState?.objectMode ?? false; },
    get writableBuffer() { return this._writableState?.getBuffer(); },
    get writableEnded() { return this._writableState?.ending ?? false; },
    get writableNeedDrain() {
      const state = this._writableState;
      return state !== undefined && !state.destroyed && !state.ending && state.needDrain;
    },
    get writableHighWaterMark() { return this._writableState?.highWaterMark; },
    get writableCorked() { return this._writableState?.corked ?? 0; },
    get writableLength() { return this._writableState?.length; },
    get writableAborted() {
      const state = this._writableState;
      return state.writable && (state.destroyed || state.errored !== null) && !state.finished;
    },
  }));

  internal.define("duplex", () => {
    const { defineHidden } = internal.node;
    const shared = internal.use("streamShared");
    const { construct, errors, fail } = shared;
    const classes = { Duplex, Transform, PassThrough };

    /** @returns {void} */
    function Duplex(options) {
      if (!(this instanceof Duplex)) return new Duplex(options);
      ReflectApply(internal.use("readable"), this, [options]);
      ReflectApply(internal.use("writable").Writable, this, [options]);
      this.allowHalfOpen = options?.allowHalfOpen !== false;
      if (options?.readable === false) {
        this._readableState.readable = false;
        this._readableState.ended = this._readableState.endEmitted = true;
      }
      if (options?.writable === false) {
        this._writableState.writable = false;
        this._writableState.ending = this._writableState.ended = this._writableState.finished = true;
      }
      if (!(this instanceof Transform)) adopt(this, options);
    }
    const adopt = (stream, options) => {
      shared.adopt(stream, options, ["read", "write", "writev", "destroy", "final", "construct"]);
      construct(stream, () => onConstructed(stream));
    };
    const onConstructed = (stream) => {
      internal.use("writable").onConstructed(stream);
      if (stream._readableState.needReadable) stream.read(0);
    };

    // The key of a write's callback whose call is deferred until the reader requests more.
    const WAITING = Symbol("waiting");

    /** @returns {void} */
    function Transform(options) {
      if (!(this instanceof Transform)) return new Transform(options);
      // If the high-water mark of the readable side is 0, that of the writable side is 0 by
      // default.
      const isUnbuffered = options?.readableHighWaterMark === 0 || options?.highWaterMark === 0;
      ReflectApply(Duplex, this, [isUnbuffered ? { ...options, writableHighWaterMark: options.writableHighWaterMark || 0 } : options]);
      this._readableState.sync = false;
      this[WAITING] = null;
      shared.adopt(this, options, ["transform", "flush"]);
      adopt(this, { ...options, read: undefined, write: undefined, writev: undefined });
      this.on("prefinish", () => {
        if (this._final !== Transform.prototype._final) flush(this);
      });
    }
    function flush(stream, done = undefined) {
      if (typeof stream._flush !== "function" || stream.destroyed) {
        stream.push(null);
        done?.();
        return;
      }
      stream._flush((error, data) => {
        if (error) {
          if (done) done(error);
          else stream.destroy(error);
          return;
        }
        if (data !== undefined && data !== null) stream.push(data);
        stream.push(null);
        done?.();
      });
    }

    /** @returns {void} */
    function PassThrough(options) {
      if (!(this instanceof PassThrough)) return new PassThrough(options);
      ReflectApply(Transform, this, [options]);
    }

    const inherit = (Class, Base) => {
      ObjectSetPrototypeOf(Class.prototype, Base.prototype);
      ObjectSetPrototypeOf(Class, Base);
    };
    inherit(Duplex, internal.use("readable"));
    inherit(Transform, Duplex);
    inherit(PassThrough, Transform);

    // The members that a Duplex has from Writable besides those from Readable.
    const { members } = internal.use("writable");
    const names = ["write", "end", "_write", "_writev", "cork", "uncork", "setDefaultEncoding", "destroy"];
    const writableMembers = { __proto__: null };
    for (let i = 0; i < names.length; i++) writableMembers[names[i]] = members[names[i]];
    const properties = internal.use("writableProperties");
    const propertyNames = ReflectOwnKeys(properties);
    for (let i = 0; i < propertyNames.length; i++) {
      if (propertyNames[i] === "destroyed" || propertyNames[i] === "closed" || propertyNames[i] === "errored") continue;
      ObjectDefineProperty(writableMembers, propertyNames[i], ReflectGetOwnPropertyDescriptor(properties, propertyNames[i]));
    }
    defineHidden(Duplex.prototype, writableMembers);

    defineHidden(Transform.prototype, {
      _transform() {
        throw errors.unimplemented("_transform()");
      },
      _write(chunk, encoding, done) {
        const reading = this._readableState, writing = this._writableState;
        const before = reading.length;
        let called = false;
        this._transform(chunk, encoding, (error, result) => {
          if (called) {
            fail(this, errors.multiple());
            return;
          }
          called = true;
          if (error) {
            done(error);
            return;
          }
          if (result !== undefined && result !== null) this.push(result);
          if (writing.ended || reading.length === before || reading.length < reading.highWaterMark) done();
          else this[WAITING] = done;
        });
      },
      _read() {
        const waiting = this[WAITING];
        if (!waiting) return;
        this[WAITING] = null;
        waiting();
      },
      _final(done) {
        flush(this, done);
      },
    });
    defineHidden(PassThrough.prototype, {
      _transform(chunk, encoding, done) {
        done(null, chunk);
      },
    });

    // ---- Duplex.from

    // Returns a Duplex that reads from `readable` and writes to `writable`.
    function pair(readable, writable) {
      let onDrain = null, onRead = null, onFinish = null;
      const duplex = new Duplex({
        readableObjectMode: readable === undefined || !!readable.readableObjectMode,
        writableObjectMode: writable === undefined || !!writable.writableObjectMode,
        readable: readable !== undefined,
        writable: writable !== undefined,
        read() {
          for (;;) {
            const chunk = readable.read();
            if (chunk === null) {
              onRead = () => duplex._read();
              return;
            }
            if (!duplex.push(chunk)) return;
          }
        },
        write(chunk, encoding, done) {
          if (writable.write(chunk, encoding)) done();
          else onDrain = done;
        },
        final(done) {
          onFinish = done;
          writable.end();
        },
        destroy(error, done) {
          for (const side of [readable, writable]) side?.destroy(error ?? undefined);
          done(error);
        },
      });
      const finished = internal.use("finished");
      // Calls the callback that `take` returns, if there is one.
      const callTaken = (take) => take()?.();
      if (readable !== undefined) {
        readable.on("readable", () => callTaken(() => { const next = onRead; onRead = null; return next; }));
        readable.on("end", () => duplex.push(null));
        finished(readable, { writable: false }, (error) => error && duplex.destroy(error));
      }
      if (writable !== undefined) {
        writable.on("drain", () => callTaken(() => { const next = onDrain; onDrain = null; return next; }));
        finished(writable, { readable: false }, (error) => {
          if (error) duplex.destroy(error);
          else callTaken(() => { const next = onFinish; onFinish = null; return next; });
        });
      }
      return duplex;
    }

    Duplex.from = (source) => {
      const { isIterable, isReadableNode, isWritableNode, isWebReadable, isWebWritable } = shared;
      const Readable = internal.use("readable");
      const web = internal.use("streamWeb");
      const toReadable = (value) => (value === undefined || isReadableNode(value) ? value
        : isWebReadable(value) ? web.readableFromWeb(value) : Readable.from(value));
      const toWritable = (value) => (value !== undefined && isWebWritable(value) ? web.writableFromWeb(value) : value);
      if (source instanceof Duplex) return source;
      if (isWebReadable(source)) return pair(toReadable(source), undefined);
      if (isWebWritable(source)) return pair(undefined, toWritable(source));
      if (typeof source === "function") {
        const input = new PassThrough({ objectMode: true });
        const output = source(input, { signal: undefined });
        if (isIterable(output)) return pair(Readable.from(output, { objectMode: true }), input);
        const duplex = pair(undefined, input);
        output.then(() => {}, (error) => duplex.destroy(error));
        return duplex;
      }
      if (isReadableNode(source)) return pair(source, undefined);
      if (isWritableNode(source)) return pair(undefined, source);
      if (typeof source?.readable === "object" || typeof source?.writable === "object") {
        return pair(toReadable(source.readable), toWritable(source.writable));
      }
      if (typeof source?.then === "function") return pair(Readable.from((async function* () { yield await source; })()), undefined);
      return pair(Readable.from(source), undefined);
    };
    Duplex.fromWeb = (pairOfStreams, options) => internal.use("streamWeb").duplexFromWeb(pairOfStreams, options);
    Duplex.toWeb = (duplex) => {
      const web = internal.use("streamWeb");
      return { readable: web.readableToWeb(duplex), writable: web.writableToWeb(duplex) };
    };
    return classes;
  });
})
