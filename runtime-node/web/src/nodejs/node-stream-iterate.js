// node:stream: Readable.from, the operators (`map`, `filter` and so on), and node:stream/consumers.
//: module
(function (internal) {
  "use strict";

  const { SymbolAsyncIterator, SymbolIterator, TypeError } = internal.primordials;

  internal.define("streamFrom", () => (Readable, source, options = undefined) => {
    const { invalid } = internal.node;
    const { nextTick } = internal.use("streamShared");
    const { Buffer } = internal.use("buffer");
    if (typeof source === "string" || Buffer.isBuffer(source)) {
      return new Readable({
        objectMode: true,
        ...options,
        read() {
          this.push(source);
          this.push(null);
        },
      });
    }
    const isAsync = typeof source?.[SymbolAsyncIterator] === "function";
    if (!isAsync && typeof source?.[SymbolIterator] !== "function") throw invalid("iterable", "an instance of Iterable", source);
    const iterator = isAsync ? source[SymbolAsyncIterator]() : source[SymbolIterator]();
    let reading = false;

    const next = async (stream) => {
      for (;;) {
        try {
          const { value, done } = isAsync ? await iterator.next() : iterator.next();
          if (done) {
            stream.push(null);
            return;
          }
          const chunk = typeof value?.then === "function" ? await value : value;
          if (chunk === null) {
            reading = false;
            throw internal.use("streamShared").errors.nullValues();
          }
          if (!stream.push(chunk)) {
            reading = false;
            return;
          }
        } catch (error) {
          stream.destroy(error);
          return;
        }
      }
    };
    const close = async (error) => {
      const failed = error !== undefined && error !== null;
      if (failed && typeof iterator.throw === "function") {
        const { value, done } = await iterator.throw(error);
        await value;
        if (done) return;
      }
      if (typeof iterator.return === "function") {
        const { value } = await iterator.return();
        await value;
      }
    };
    const readable = new Readable({
      objectMode: true,
      highWaterMark: 1,
      ...options,
      read() {
        if (reading) return;
        reading = true;
        next(this);
      },
    });
    readable._destroy = (error, done) => {
      close(error).then(() => nextTick(done, error), (failure) => nextTick(done, failure ?? error));
    };
    return readable;
  });

  // ---- Operators

  internal.define("streamOperators", () => /** @returns {Methods} */ () => {
    const { abortError, coded, needFunction, needInteger, needObject, needSignal, outOfRange } = internal.node;
    const Stream = () => internal.use("readable");

    function optionsOf(options) {
      if (options !== undefined && options !== null) needObject(options, "options");
      if (options?.signal !== undefined) needSignal(options.signal, "options.signal");
      return options ?? {};
    }
    const throwIfAborted = (signal) => {
      if (signal?.aborted) throw abortError(signal);
    };

    // Yields the results of `fn` in order, with up to `concurrency` calls in progress.
    async function* mapped(source, fn, options) {
      const { signal, concurrency = 1 } = options;
      needInteger(concurrency, "options.concurrency", 1);
      const pending = [];
      for await (const chunk of source) {
        throwIfAborted(signal);
        const promise = (async () => await fn(chunk, { signal }))();
        promise.catch(() => {});
        pending.push(promise);
        if (pending.length >= concurrency) yield await pending.shift();
      }
      while (pending.length > 0) {
        throwIfAborted(signal);
        yield await pending.shift();
      }
    }
    const NONE = {};
    async function* kept(source, fn, options) {
      const each = async (chunk, given) => ((await fn(chunk, given)) ? chunk : NONE);
      for await (const chunk of mapped(source, each, options)) if (chunk !== NONE) yield chunk;
    }
    async function* flat(source, fn, options) {
      for await (const inner of mapped(source, fn, options)) yield* inner;
    }
    async function* without(source, count, { signal }) {
      let left = count;
      throwIfAborted(signal);
      for await (const chunk of source) {
        throwIfAborted(signal);
        if (left-- <= 0) yield chunk;
      }
    }
    async function* first(source, count, { signal }) {
      let left = count;
      throwIfAborted(signal);
      if (left <= 0) return;
      for await (const chunk of source) {
        throwIfAborted(signal);
        yield chunk;
        if (--left <= 0) return;
      }
    }
    function countOf(value) {
      const number = +value;
      if (number !== number) return 0;
      if (number < 0) throw outOfRange("number", ">= 0", number);
      return number;
    }
    const streamOf = (iterator) => Stream().from(iterator, { objectMode: true });

    return {
      map(fn, options) {
        return streamOf(mapped(this, needFunction(fn, "fn"), optionsOf(options)));
      },
      filter(fn, options) {
        return streamOf(kept(this, needFunction(fn, "fn"), optionsOf(options)));
      },
      flatMap(fn, options) {
        return streamOf(flat(this, needFunction(fn, "fn"), optionsOf(options)));
      },
      drop(limit, options) {
        return streamOf(without(this, countOf(limit), optionsOf(options)));
      },
      take(limit, options) {
        return streamOf(first(this, countOf(limit), optionsOf(options)));
      },
      compose(stage, options) {
        const { compose } = internal.use("pipeline");
        const composed = compose(this, stage);
        if (options?.signal !== undefined) internal.use("streamShared").addAbortSignal(options.signal, composed);
        return composed;
      },
      async forEach(fn, options) {
        needFunction(fn, "fn");
        for await (const done of mapped(this, fn, optionsOf(options))) void done;
      },
      async toArray(options) {
        const { signal } = optionsOf(options);
        const all = [];
        throwIfAborted(signal);
        for await (const chunk of this) {
          throwIfAborted(signal);
          all.push(chunk);
        }
        return all;
      },
      async some(fn, options) {
        for await (const _found of kept(this, needFunction(fn, "fn"), optionsOf(options))) return true;
        return false;
      },
      async every(fn, options) {
        needFunction(fn, "fn");
        const not = async (chunk, given) => !(await fn(chunk, given));
        for await (const _found of kept(this, not, optionsOf(options))) return false;
        return true;
      },
      async find(fn, options) {
        for await (const found of kept(this, needFunction(fn, "fn"), optionsOf(options))) return found;
        return undefined;
      },
      async reduce(fn, ...rest) {
        needFunction(fn, "reducer");
        const { signal } = optionsOf(rest[1]);
        let hasValue = rest.length > 0;
        let value = rest[0];
        throwIfAborted(signal);
        for await (const chunk of this) {
          throwIfAborted(signal);
          value = hasValue ? await fn(value, chunk, { signal }) : chunk;
          hasValue = true;
        }
        if (!hasValue) throw coded(TypeError, "ERR_MISSING_ARGS", "Reduce of an empty stream requires an initial value");
        return value;
      },
    };
  });

  // ---- Consumers

  internal.define("streamConsumers", () => {
    const { Buffer } = internal.use("buffer");
    const collect = async (stream) => {
      const chunks = [];
      for await (const chunk of stream) chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
      return chunks;
    };
    const buffer = async (stream) => Buffer.concat(await collect(stream));
    const text = async (stream) => {
      const decoder = new (internal.hooks.lazy("TextDecoder"))();
      let all = "";
      for await (const chunk of stream) all += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
      return all + decoder.decode();
    };
    return {
      async arrayBuffer(stream) {
        const bytes = await buffer(stream);
        return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
      },
      async blob(stream) {
        return new (internal.blobs().Blob)(await collect(stream));
      },
      buffer,
      async json(stream) {
        return internal.parseJSON(await text(stream));
      },
      text,
    };
  });
})
