// node:fs: ReadStream and WriteStream.
//: module
(function (internal) {
  "use strict";

  const { ObjectSetPrototypeOf, PromisePrototypeThen, ReflectApply, Symbol, Uint8Array } = internal.primordials;

  internal.define("fsStreams", () => {
    const { defineHidden, needInteger, outOfRange } = internal.node;
    const { calls, transfers } = internal.use("fsOpen");
    const { pathOf } = internal.use("fsTree");
    const { Buffer } = internal.use("buffer");
    const EventEmitter = internal.use("events");
    const { nextTick } = internal.use("process");
    const Readable = internal.use("readable");
    const { Writable } = internal.use("writable");

    // The key of the property with the FileHandle whose descriptor a stream uses, or with null.
    const HANDLE = Symbol("handle");

    // Runs a call and passes its outcome to a callback in a later tick.
    function later(callback, call) {
      let error = null, result;
      try {
        result = call();
      } catch (thrown) {
        error = thrown;
      }
      nextTick(callback, error, result);
    }

    function begin(stream, path, options, flags) {
      const given = typeof options === "string" ? { encoding: options } : options ?? {};
      stream.path = path === undefined || path === null ? undefined : pathOf(path);
      stream.flags = given.flags ?? flags;
      stream.mode = given.mode ?? 0o666;
      stream.autoClose = given.autoClose !== false;
      const handle = given.fd instanceof EventEmitter ? /** @type {any} */ (given.fd) : null;
      defineHidden(stream, { [HANDLE]: handle });
      stream.fd = handle?.fd ?? given.fd ?? null;
      // The number of a closed descriptor may soon belong to another file.
      handle?.once("close", () => stream.close());
      stream.pending = stream.fd === null;
      stream.start = given.start === undefined ? undefined : needInteger(given.start, "start", 0);
      stream.pos = stream.start;
      return given;
    }
    const shared = {
      _construct(callback) {
        if (this.fd !== null) {
          callback();
          return;
        }
        later((error, fd) => {
          if (!error) {
            this.fd = fd;
            this.pending = false;
          }
          callback(error);
          if (error) return;
          this.emit("open", fd);
          this.emit("ready");
        }, () => calls.open(this.path, this.flags, this.mode));
      },
      _destroy(error, callback) {
        const { fd } = this;
        if (fd === null || !this.autoClose) {
          callback(error);
          return;
        }
        this.fd = null;
        const handle = this[HANDLE];
        if (handle !== null) {
          // Only the handle may close its descriptor, because it has to forget the number.
          PromisePrototypeThen(
            handle.close(), () => nextTick(callback, error), (failed) => nextTick(callback, error ?? failed),
          );
          return;
        }
        later((failed) => callback(error ?? failed), () => calls.close(fd));
      },
      close(callback = undefined) {
        if (callback) {
          if (this.closed) nextTick(callback);
          else this.once("close", () => callback());
        }
        this.destroy();
      },
    };

    /** @returns {void} */
    function ReadStream(path, options) {
      if (!(this instanceof ReadStream)) return new ReadStream(path, options);
      const given = begin(this, path, options, "r");
      this.end = given.end === undefined ? 1 / 0 : given.end;
      if (this.end < (this.start ?? 0)) throw outOfRange("start", `<= "end" (here: ${this.end})`, this.start);
      if (this.start === undefined && this.end !== 1 / 0) this.pos = 0;
      this.bytesRead = 0;
      ReflectApply(Readable, this, [{
        autoDestroy: this.autoClose, emitClose: given.emitClose, encoding: given.encoding, highWaterMark: given.highWaterMark ?? 65536,
        signal: given.signal,
      }]);
    }
    ObjectSetPrototypeOf(ReadStream.prototype, Readable.prototype);
    ObjectSetPrototypeOf(ReadStream, Readable);
    defineHidden(ReadStream.prototype, shared);
    defineHidden(ReadStream.prototype, {
      _read(max) {
        const count = Math.min(max, this.pos === undefined ? this.end - this.bytesRead + 1 : this.end - this.pos + 1);
        if (count <= 0) {
          this.push(null);
          return;
        }
        const buffer = Buffer.from(new Uint8Array(count).buffer);
        later((error, got) => {
          if (error) {
            this.destroy(error);
            return;
          }
          if (this.pos !== undefined) this.pos += got;
          this.bytesRead += got;
          this.push(got === 0 ? null : buffer.subarray(0, got));
        }, () => transfers.read(this.fd, buffer, 0, count, this.pos));
      },
    });

    /** @returns {void} */
    function WriteStream(path, options) {
      if (!(this instanceof WriteStream)) return new WriteStream(path, options);
      const given = begin(this, path, options, "w");
      this.bytesWritten = 0;
      ReflectApply(Writable, this, [{
        autoDestroy: this.autoClose, emitClose: given.emitClose, highWaterMark: given.highWaterMark, signal: given.signal,
      }]);
      if (given.encoding) this.setDefaultEncoding(given.encoding);
    }
    ObjectSetPrototypeOf(WriteStream.prototype, Writable.prototype);
    ObjectSetPrototypeOf(WriteStream, Writable);
    defineHidden(WriteStream.prototype, shared);
    defineHidden(WriteStream.prototype, {
      _write(chunk, encoding, callback) {
        later((error, count) => {
          if (!error) {
            this.bytesWritten += count;
            if (this.pos !== undefined) this.pos += count;
          }
          callback(error);
        }, () => transfers.write(this.fd, chunk, 0, chunk.length, this.pos));
      },
      _writev(writes, callback) {
        const bytes = Buffer.concat(writes.map(({ chunk }) => chunk));
        this._write(bytes, "buffer", callback);
      },
      destroySoon() {
        this.end();
      },
    });
    return { ReadStream, WriteStream, later };
  });
})
