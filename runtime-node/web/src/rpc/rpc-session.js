// Sessions: the calls between two Workers that follow from one call of a binding.
//
//   caller ── CALL 0: entrypoint, path, arguments ──────────► callee
//          ◄── CALL 0: a function in the arguments ──────────        (a callback)
//          ─── RETURN 0 ─────────────────────────────────────►
//          ◄── RETURN 0: the result, with references ────────
//          ─── CALL 1: a reference in the result; FINISH 0 ──►
//
// A session is one invocation of the callee: the body of its request carries the caller's messages,
// and the body of its response those of the callee. A session ends with the invocation of either
// side. The code of each side is charged to its own invocation, in whose turns messages arrive.
//
// An object that a side sends by reference stays in its table `exports` until the peer has released
// it. The results of calls stay in `answers` until the peer has finished with them, so that calls
// of their members can arrive before the peer has seen them. Every table is bounded.
//
//   CALL     id, kind of target, target, number of names, names, whether there are arguments, list
//   RETURN   id, value             THROW    id, value
//   FINISH   id                    RELEASE  number of a reference
//: late, after rpc-bodies.js rpc-stubs.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, Error, Map, MapPrototypeClear, MapPrototypeDelete, MapPrototypeForEach, MapPrototypeGet, MapPrototypeGetSize,
    MapPrototypeHas, MapPrototypeSet, ObjectDefineProperty, PromisePrototypeThen, PromiseResolve, PromiseWithResolvers,
    SymbolDispose, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("rpcSessions", [], () => {
    const { MAX_REFERENCES, frame, standIn } = internal.rpcEncoding();
    const { Decoder, Frames } = internal.rpcDecoding();
    const { Pending } = internal.rpcStubs();
    const { dispose, isService, perform } = internal.rpcTargets();

    // The kinds of messages.
    const CALL = 1, RETURN = 2, THROW = 3, FINISH = 4, RELEASE = 5;
    // The kinds of a call's target. `SINGLE` is the entrypoint, in the first call of a session
    // after which the caller calls nothing but what the result refers to.
    const REFERENCE = 0, ANSWER = 1, SINGLE = 2;
    // The reference to the entrypoint, and the id of the first call.
    const MAIN = 0;
    const FIRST = 0;

    // The maximum number of unfinished calls of one side.
    const MAX_CALLS = 1000;
    // The maximum number of names in a path.
    const MAX_PATH = 64;

    const whyOf = (error) => (isObject(error) && typeof error.message === "string" ? error.message : "its stream has broken");
    const lost = (why) => new Error(`The session with the Worker has ended: ${why}`);

    class Session {
      // The invocation to which this side belongs.
      owner;
      // Whether this side has been called.
      isCallee;
      // The objects to which the peer refers, by number.
      exports = new Map();
      lastExport = 0;
      // The calls of this side that have no result yet, by id.
      calls = new Map();
      lastCall = -1;
      // The results of the peer's calls, by id, and how many of them are still pending.
      answers = new Map();
      answering = 0;
      // The number of holders of each object to which this side refers, by the object's number.
      imports = new Map();
      // Messages that the next microtask sends, and the stream to the peer:
      // {write(bytes), close(), end(error)}.
      outbox = [];
      transport;
      // Whether the first call is the only one.
      isSingleCall = false;
      // The error for further calls, once the session has ended.
      ended = null;
      // Whether this side, and the peer, have closed their streams.
      wasClosed = false;
      peerClosed = false;
      // Creates the entrypoint on first use: {get()}. Null on the caller's side.
      main = null;
      // Whether the callee has begun to answer.
      isOpen = false;

      constructor(owner, isCallee, transport) {
        this.owner = owner;
        this.isCallee = isCallee;
        this.transport = transport;
      }

      // ---- Messages to the peer

      send(message) {
        if (this.ended !== null || this.wasClosed) return;
        this.outbox[this.outbox.length] = message;
        if (this.outbox.length === 1) PromisePrototypeThen(PromiseResolve(undefined), () => this.flush());
      }

      flush() {
        const { outbox } = this;
        if (outbox.length === 0 || this.ended !== null) return;
        this.outbox = [];
        // The kind of the first call's target follows the frame's length, the message's kind and
        // the call's id.
        if (!this.isCallee && !this.isSingleCall && this.lastCall === FIRST && outbox.length === 1) {
          this.isSingleCall = true;
          outbox[0][6] = SINGLE;
        }
        try {
          this.transport.write(join(outbox));
          this.closeIfIdle();
        } catch (error) {
          this.end(lost(whyOf(error)));
        }
      }

      // Adds a reference for the peer. Returns its number.
      add(target) {
        if (MapPrototypeGetSize(this.exports) >= MAX_REFERENCES) {
          throw new Error(`A session between Workers has more than ${MAX_REFERENCES} references; dispose those that are not needed`);
        }
        const number = ++this.lastExport;
        MapPrototypeSet(this.exports, number, target);
        return number;
      }

      // Takes back a reference that was not sent after all.
      remove(number) {
        const target = MapPrototypeGet(this.exports, number);
        MapPrototypeDelete(this.exports, number);
        if (isService(target)) dispose(target);
      }

      // Drops a reference that the peer no longer holds.
      drop(number) {
        const target = MapPrototypeGet(this.exports, number);
        if (!MapPrototypeDelete(this.exports, number)) return;
        dispose(target);
      }

      // Calls an object of the peer. Returns a Pending. Throws if the arguments cannot be sent.
      invoke(kind, target, path, args) {
        if (this.ended !== null) throw this.ended;
        if (this.wasClosed) throw lost("its stubs have been disposed");
        if (path.length > MAX_PATH) throw new Error(`A path of more than ${MAX_PATH} names cannot be sent to a Worker`);
        if (MapPrototypeGetSize(this.calls) >= MAX_CALLS) {
          throw new Error(`A session between Workers has more than ${MAX_CALLS} calls without a result; await some of them first`);
        }
        const id = this.lastCall + 1;
        const message = frame(CALL, this, (writer) => {
          writer.integer(id);
          writer.byte(kind);
          writer.integer(target);
          writer.integer(path.length);
          for (let i = 0; i < path.length; i++) writer.string(path[i]);
          writer.byte(args === null ? 0 : 1);
        }, args === null ? null : (encoder) => {
          encoder.writer.integer(args.length);
          for (let i = 0; i < args.length; i++) encoder.value(args[i]);
        });
        this.lastCall = id;
        const { promise, reject, resolve } = PromiseWithResolvers();
        MapPrototypeSet(this.calls, id, { __proto__: null, reject, resolve });
        this.send(message);
        // The peer keeps the result until this side has finished with it.
        return new Pending(promise, (path, args) =>
          (MapPrototypeHas(this.calls, id) && !this.isFinal(id) ? this.invoke(ANSWER, id, path, args) : null));
      }

      // Returns whether this side has promised that no call refers to the result of a call.
      isFinal(id) {
        return id === FIRST && this.isSingleCall && !this.isCallee;
      }

      finish(id) {
        this.send(frame(FINISH, this, (writer) => writer.integer(id), null));
      }

      // ---- What stays with the peer (used by the decoder)

      import(number) {
        this.hold(number);
        return new Import(this, number);
      }

      methods(number) {
        if (!MapPrototypeHas(this.imports, number)) this.hold(number);
        return (name, args) => this.invoke(REFERENCE, number, [name], args).promise;
      }

      hold(number) {
        if (MapPrototypeGetSize(this.imports) >= MAX_REFERENCES) throw new Error(`the peer sent more than ${MAX_REFERENCES} references`);
        MapPrototypeSet(this.imports, number, (MapPrototypeGet(this.imports, number) ?? 0) + 1);
      }

      release(number) {
        const holders = MapPrototypeGet(this.imports, number);
        if (holders === undefined) return;
        if (holders > 1) {
          MapPrototypeSet(this.imports, number, holders - 1);
          return;
        }
        MapPrototypeDelete(this.imports, number);
        this.send(frame(RELEASE, this, (writer) => writer.integer(number), null));
      }

      // ---- Messages of the peer

      receive(bytes) {
        const decoder = new Decoder(bytes, this);
        const kind = decoder.byte();
        const id = decoder.integer();
        switch (kind) {
          case CALL: return this.called(decoder, id);
          case RETURN: return this.returned(decoder, id);
          case THROW: {
            const call = this.answered(id);
            if (call !== undefined) call.reject(decoder.value());
            return this.closeIfIdle();
          }
          case FINISH:
            MapPrototypeDelete(this.answers, id);
            return this.closeIfIdle();
          case RELEASE:
            this.drop(id);
            return this.closeIfIdle();
          default:
            // A newer version may send further kinds, which need no answer.
        }
      }

      called(decoder, id) {
        const kind = decoder.byte();
        const target = decoder.integer();
        const length = decoder.integer();
        if (length > MAX_PATH) throw new Error(`a path has more than ${MAX_PATH} names`);
        if (MapPrototypeGetSize(this.answers) >= MAX_CALLS) throw new Error(`more than ${MAX_CALLS} calls are unfinished`);
        if (MapPrototypeHas(this.answers, id)) throw new Error("two calls have the same id");
        const path = [];
        for (let i = 0; i < length; i++) path[i] = decoder.string();
        const args = decoder.byte() === 1 ? decoder.list() : null;
        if (this.isCallee) this.isSingleCall = kind === SINGLE;
        this.answering++;
        const result = this.perform(kind, target, path, args);
        if (kind !== SINGLE) MapPrototypeSet(this.answers, id, result);
        this.reply(id, result, decoder.received);
      }

      // Returns a promise of the result of a call.
      async perform(kind, target, path, args) {
        if (kind === ANSWER) {
          const answer = MapPrototypeGet(this.answers, target);
          if (answer === undefined) throw new Error("The result of the call is no longer available");
          return perform(await answer, path, args);
        }
        if (!MapPrototypeHas(this.exports, target)) throw new Error("The object has been disposed");
        const object = MapPrototypeGet(this.exports, target);
        return perform(object === this.main ? this.main.get() : object, path, args);
      }

      async reply(id, result, received) {
        let message;
        const write = (writer) => writer.integer(id);
        try {
          const value = await result;
          message = frame(RETURN, this, write, (encoder) => encoder.value(value));
        } catch (error) {
          message = this.thrown(write, error);
        }
        this.answering--;
        // The arguments' stubs end with the call, unless the Worker has duplicated them.
        for (let i = 0; i < received.length; i++) received[i].dispose();
        this.send(message);
      }

      thrown(write, error) {
        try {
          return frame(THROW, this, write, (encoder) => encoder.value(error));
        } catch {
          return frame(THROW, this, write, (encoder) => encoder.value(standIn(error)));
        }
      }

      answered(id) {
        const call = MapPrototypeGet(this.calls, id);
        MapPrototypeDelete(this.calls, id);
        if (call !== undefined && !this.isFinal(id)) this.finish(id);
        return call;
      }

      returned(decoder, id) {
        const value = decoder.value();
        const { received } = decoder;
        const call = this.answered(id);
        if (call === undefined) {
          for (let i = 0; i < received.length; i++) received[i].dispose();
          return;
        }
        if (isObject(value) && typeof value !== "function") disposable(value, received);
        call.resolve(value);
        this.closeIfIdle();
      }

      // ---- The end

      // Ends this side's stream if this side has nothing more to send. Unless there is only one
      // call, the callee waits for the caller's end, because calls of results may be on their way.
      closeIfIdle() {
        if (this.ended !== null || this.wasClosed || this.outbox.length > 0) return;
        if (this.isCallee && !this.peerClosed && !this.isSingleCall) return;
        if (!this.isIdle()) return;
        this.wasClosed = true;
        this.transport.close();
      }

      // Returns whether no call is pending, and neither side refers to anything of the other,
      // except the entrypoint.
      isIdle() {
        return this.answering === 0 && MapPrototypeGetSize(this.calls) === 0 && MapPrototypeGetSize(this.imports) === 0 &&
          MapPrototypeGetSize(this.exports) === (this.isCallee ? 1 : 0);
      }

      // Ends the session, because a stream has ended or has failed.
      end(error) {
        if (this.ended !== null) return;
        this.ended = error;
        const { calls, exports } = this;
        this.calls = new Map();
        this.exports = new Map();
        MapPrototypeClear(this.imports);
        MapPrototypeClear(this.answers);
        MapPrototypeForEach(calls, (call) => {
          for (let i = 0; i < once; i++) call.reject(error);
        });
        MapPrototypeForEach(exports, (target) => {
          for (let i = 0; i < once; i++) if (target !== this.main) dispose(target);
        });
        this.transport.end(error);
      }

      // Reads the peer's messages from a native stream to its end.
      async read(owner, number) {
        const frames = new Frames();
        const each = (bytes) => this.receive(bytes);
        try {
          for (;;) {
            const pulled = ops.streamPull(owner, number);
            const piece = pulled === null || ArrayBufferIsView(pulled) ? pulled : await pulled;
            if (piece === null) break;
            frames.push(piece, each);
          }
          this.peerClosed = true;
          if (this.isCallee) this.closeIfIdle();
          else this.end(lost("the Worker has answered"));
        } catch (error) {
          this.end(lost(whyOf(error)));
        }
      }
    }

    // Callbacks need a loop, so that a termination stops them (see clone.js).
    let once = 1;

    // A reference of this side to an object of the peer.
    class Import {
      #session;
      #number;
      #isDisposed = false;
      constructor(session, number) {
        this.#session = session;
        this.#number = number;
      }
      #use() {
        if (this.#isDisposed) throw new Error("The stub has been disposed");
        return this.#session;
      }
      begin(path, args) {
        return this.#use().invoke(REFERENCE, this.#number, path, args);
      }
      dup() {
        const session = this.#use();
        session.hold(this.#number);
        return new Import(session, this.#number);
      }
      dispose() {
        if (this.#isDisposed) return;
        this.#isDisposed = true;
        this.#session.release(this.#number);
      }
    }

    // Gives a result the method that disposes the stubs in it.
    const disposable = (value, received) => {
      const disposer = () => {
        for (let i = 0; i < received.length; i++) received[i].dispose();
      };
      ObjectDefineProperty(value, SymbolDispose, { __proto__: null, value: disposer, writable: true, configurable: true });
    };

    function join(messages) {
      if (messages.length === 1) return messages[0];
      let size = 0;
      for (let i = 0; i < messages.length; i++) size += TypedArrayPrototypeGetByteLength(messages[i]);
      const all = new Uint8Array(size);
      let at = 0;
      for (let i = 0; i < messages.length; i++) {
        TypedArrayPrototypeSet(all, messages[i], at);
        at += TypedArrayPrototypeGetByteLength(messages[i]);
      }
      return all;
    }

    return { __proto__: null, MAIN, REFERENCE, Session, lost };
  });
})
