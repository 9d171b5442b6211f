// node:stream: finished, pipeline, compose, and their promise forms.
//: module
(function (internal) {
  "use strict";

  const { ArrayIsArray, Promise, TypeError } = internal.primordials;

  // Calls back once when a stream has ended, with an error if the stream has failed or closed
  // prematurely.
  internal.define("finished", () => {
    const { abortError, invalid, needFunction, needObject, needSignal } = internal.node;
    const { errors, isNodeStream, lifecycleOf, nextTick } = internal.use("streamShared");

    return /** @param {any} [callback] */ (stream, options, callback) => {
      if (typeof options === "function") {
        callback = options;
        options = {};
      } else if (options === undefined || options === null) options = {};
      else needObject(options, "options");
      needFunction(callback, "callback");
      if (options.signal !== undefined) needSignal(options.signal, "options.signal");
      let called = false;
      let clean = () => {};
      const call = (error = undefined) => {
        if (called) return;
        called = true;
        if (error) callback.call(stream, error);
        else callback.call(stream);
      };
      const done = (error = undefined) => {
        clean();
        call(error);
      };
      if (!isNodeStream(stream)) throw invalid("stream", "an instance of Stream", stream);

      const reading = stream._readableState, writing = stream._writableState;
      const lifecycle = lifecycleOf(stream);
      const wantsReadable = options.readable ?? (reading !== undefined ? reading.readable : stream.readable === true);
      const wantsWritable = options.writable ?? (writing !== undefined ? writing.writable : stream.writable === true);
      const willClose = lifecycle !== undefined && lifecycle.autoDestroy && lifecycle.emitClose && !lifecycle.closed &&
        (reading === undefined || wantsReadable === reading.readable) && (writing === undefined || wantsWritable === writing.writable);
      const isFinished = () => (writing !== undefined ? writing.finished : stream.writableFinished === true);
      const isEnded = () => (reading !== undefined ? reading.endEmitted : stream.readableEnded === true);
      let written = isFinished();
      let read = isEnded();

      // If the stream is going to emit `close`, `onClose` reports the end.
      const onFinish = () => {
        written = true;
        if (stream.destroyed) return;
        if (willClose && (!stream.readable || wantsReadable)) return;
        if (!wantsReadable || read) done();
      };
      const onEnd = () => {
        read = true;
        if (stream.destroyed) return;
        if (willClose && (!stream.writable || wantsWritable)) return;
        if (!wantsWritable || written) done();
      };
      const onError = (error) => done(error);
      const onClose = () => {
        const error = lifecycle?.errored ?? stream.errored;
        if (error && typeof error !== "boolean") return done(error);
        if (wantsReadable && !read && !isEnded() && reading !== undefined) return done(errors.premature());
        if (wantsWritable && !written && !isFinished() && writing !== undefined) return done(errors.premature());
        return done();
      };
      const listeners = [["end", onEnd], ["finish", onFinish], ["close", onClose]];
      if (options.error !== false) listeners.push(["error", onError]);
      for (const [type, listener] of listeners) stream.on(type, listener);
      let forget = null;
      clean = () => {
        for (const [type, listener] of listeners) stream.removeListener(type, listener);
        forget?.();
        forget = null;
      };
      if (options.signal !== undefined) {
        const { isAborted, onAbort } = internal.abort();
        const aborted = () => done(abortError(options.signal));
        if (isAborted(options.signal)) nextTick(aborted);
        else forget = onAbort(options.signal, aborted);
      }
      // The stream may have ended before this call.
      if (lifecycle?.closed) nextTick(onClose);
      else if (lifecycle?.errorEmitted) {
        if (!willClose) nextTick(onClose);
      } else if (!wantsReadable && wantsWritable && written && !willClose) nextTick(onFinish);
      else if (!wantsWritable && wantsReadable && read && !willClose) nextTick(onEnd);
      return () => {
        called = true;
        clean();
      };
    };
  });

  internal.define("pipeline", () => {
    const { abortError, coded, invalid, needFunction, needSignal } = internal.node;
    const { errors, isIterable, isNodeStream, isReadableNode, isWebReadable, isWebWritable, isWritableNode, nextTick } =
      internal.use("streamShared");
    const finished = internal.use("finished");
    const Readable = internal.use("readable");
    const { PassThrough, Duplex } = internal.use("duplex");
    const web = () => internal.use("streamWeb");

    const asNode = (stream) => {
      if (isWebReadable(stream)) return web().readableFromWeb(stream);
      if (isWebWritable(stream)) return web().writableFromWeb(stream);
      if (!isNodeStream(stream) && isWebReadable(stream?.readable) && isWebWritable(stream?.writable)) return web().duplexFromWeb(stream);
      return stream;
    };

    // Writes all chunks of an iterable to a stream, and waits for `drain` while the stream is full.
    // Ends the stream if `endsDestination` is true.
    async function pump(source, destination, endsDestination) {
      let wake = null;
      let failure;
      let ended = false;
      const awaken = () => {
        const waiting = wake;
        wake = null;
        waiting?.();
      };
      const forget = finished(destination, { readable: false }, (error) => {
        failure = error;
        ended = true;
        awaken();
      });
      const drained = () => new Promise((resolve) => (wake = resolve));
      destination.on("drain", awaken);
      try {
        for await (const chunk of source) {
          if (ended) break;
          if (!destination.write(chunk) && !ended) await drained();
          if (failure) throw failure;
        }
        if (failure) throw failure;
        if (endsDestination && !ended) {
          destination.end();
          while (!ended) await drained();
          if (failure) throw failure;
        }
      } finally {
        destination.removeListener("drain", awaken);
        forget();
      }
    }

    function run(streams, options, callback) {
      const { signal, end = true } = options;
      if (signal !== undefined) needSignal(signal, "options.signal");
      const inner = new (internal.abort().AbortController)();
      // The functions in `members` destroy the pipeline's streams on a failure. `waits` counts the
      // pending completions.
      const members = [];
      let waits = 1;
      let failure;
      let value;
      let called = false;
      const settle = (error = undefined) => {
        if (error && (failure === undefined || failure.code === "ERR_STREAM_PREMATURE_CLOSE")) failure = error;
        waits--;
        if (called || (failure === undefined && waits > 0)) return;
        if (failure !== undefined) {
          for (let i = 0; i < members.length; i++) members[i](failure);
          inner.abort();
        }
        called = true;
        forget?.();
        nextTick(callback, failure, value);
      };
      const { isAborted, onAbort } = internal.abort();
      let forget = null;
      const abort = () => {
        waits++;
        settle(abortError(signal));
      };
      // Adds a stream to the pipeline, which then waits for the end of the stream.
      const join = (stream, reads, writes) => {
        waits++;
        let ended = false;
        members.push((error) => {
          if (ended && !(error && stream.errored === null && !stream.destroyed)) return;
          if (!stream.destroyed) stream.destroy(error);
        });
        finished(stream, { readable: reads, writable: writes }, (error) => {
          ended = true;
          settle(error);
        });
      };

      let last = asNode(streams[0]);
      if (typeof last === "function") {
        last = last({ signal: inner.signal });
        if (!isIterable(last)) throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", "Expected Iterable, AsyncIterable or Stream to be returned");
      } else if (!isNodeStream(last) && !isIterable(last)) throw invalid("source", "a stream, an iterable or a function", last);
      if (isNodeStream(last)) join(last, true, false);

      for (let i = 1; i < streams.length; i++) {
        const isLast = i === streams.length - 1;
        const stage = asNode(streams[i]);
        if (typeof stage === "function") {
          const input = isNodeStream(last) && isReadableNode(last) ? last : isIterable(last) ? last : Readable.from(last);
          const output = stage(input, { signal: inner.signal });
          if (isLast && !isIterable(output)) {
            if (typeof output?.then !== "function") {
              throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", "Expected AsyncIterable or Promise to be returned");
            }
            waits++;
            output.then((result) => {
              value = result;
              settle();
            }, settle);
            last = output;
          } else {
            if (!isIterable(output)) throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", "Expected AsyncIterable to be returned");
            last = output;
            if (isLast) {
              const through = new PassThrough({ objectMode: true });
              waits++;
              pump(output, through, end).then(() => settle(), (error) => settle(error));
              join(through, true, true);
              last = through;
            }
          }
          continue;
        }
        if (!isNodeStream(stage) || !isWritableNode(stage)) throw invalid(isLast ? "destination" : `streams[${i}]`, "a writable stream or a function", stage);
        if (isNodeStream(last) && isReadableNode(last)) last.pipe(stage, { end: !isLast || end });
        else {
          waits++;
          pump(last, stage, !isLast || end).then(() => settle(), (error) => settle(error));
        }
        if (!isLast || end) join(stage, !isLast, true);
        else {
          // The destination remains open. Its errors fail the pipeline until the source has ended.
          const source = last;
          const forgetStage = finished(stage, { readable: false }, (error) => error && abortWith(error));
          if (isNodeStream(source)) finished(source, { writable: false }, forgetStage);
        }
        last = stage;
      }
      function abortWith(error) {
        waits++;
        settle(error);
      }
      if (signal !== undefined) {
        if (isAborted(signal)) abort();
        else forget = onAbort(signal, abort);
      }
      settle();
      return last;
    }

    const isStage = (value) =>
      typeof value === "function" || isNodeStream(value) || isIterable(value) || isWebReadable(value) || isWebWritable(value) ||
        isWebReadable(value?.readable);

    function pipeline(...given) {
      const callback = needFunction(given.pop(), "streams[stream.length - 1]");
      const streams = given.length === 1 && ArrayIsArray(given[0]) ? given[0] : given;
      if (streams.length < 2) throw errors.missing("streams");
      return run(streams, {}, callback);
    }

    const promised = (...given) => new Promise((resolve, reject) => {
      let options = {};
      const last = given[given.length - 1];
      if (typeof last === "object" && last !== null && !isStage(last)) options = given.pop();
      const streams = given.length === 1 && ArrayIsArray(given[0]) ? given[0] : given;
      if (streams.length < 2) throw errors.missing("streams");
      run(streams, options, (error, value) => (error ? reject(error) : resolve(value)));
    });

    // Combines several streams into one Duplex: writes go to the first stream, and reads come from
    // the last.
    function compose(...given) {
      if (given.length === 0) throw errors.missing("streams");
      const stages = given.map((stage) => (isNodeStream(stage) ? stage : Duplex.from(asNode(stage))));
      if (stages.length === 1) return stages[0];
      const first = stages[0], end = stages[stages.length - 1];
      const writes = isWritableNode(first), reads = isReadableNode(end);
      const duplex = Duplex.from({ readable: reads ? end : undefined, writable: writes ? first : undefined });
      pipeline(...stages, (error) => {
        if (error) duplex.destroy(error);
      });
      return duplex;
    }
    return { compose, pipeline, promised };
  });

  internal.define("streamPromises", () => {
    const { promised } = internal.use("pipeline");
    return {
      finished: (stream, options = {}) => new Promise((resolve, reject) => {
        const forget = internal.use("finished")(stream, options, (error) => {
          if (options?.cleanup) forget();
          if (error) reject(error);
          else resolve();
        });
      }),
      pipeline: promised,
    };
  });
})
