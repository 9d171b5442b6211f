// node:fs/promises: FileHandle, and the functions that return promises.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, Error, ObjectAssign, Promise, SymbolAsyncDispose, SymbolAsyncIterator, SymbolIterator } = internal.primordials;

  // node:fs: a directory whose entries are returned one by one.
  internal.define("fsDirectory", () => {
    const { coded, needFunction } = internal.node;
    const { calls } = internal.use("fsCalls");
    const { nextTick } = internal.use("process");

    class Dir {
      path;
      #entries;
      #isClosed = false;
      constructor(path, options) {
        this.path = path;
        this.#entries = calls.readdir(path, { ...options, withFileTypes: true }).reverse();
      }
      readSync() {
        if (this.#isClosed) throw coded(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
        return this.#entries.pop() ?? null;
      }
      closeSync() {
        if (this.#isClosed) throw coded(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
        this.#isClosed = true;
      }
      read(callback = undefined) {
        if (callback === undefined) return new Promise((resolve) => resolve(this.readSync()));
        nextTick(needFunction(callback, "callback"), null, this.readSync());
        return undefined;
      }
      close(callback = undefined) {
        if (callback === undefined) return new Promise((resolve) => resolve(this.closeSync()));
        this.closeSync();
        nextTick(needFunction(callback, "callback"), null);
        return undefined;
      }
      async *entries() {
        try {
          for (let entry = this.readSync(); entry !== null; entry = this.readSync()) yield entry;
        } finally {
          if (!this.#isClosed) this.closeSync();
        }
      }
      [SymbolAsyncIterator]() {
        return this.entries();
      }
      async [SymbolAsyncDispose]() {
        if (!this.#isClosed) this.closeSync();
      }
    }
    return Dir;
  });

  internal.define("fsPromises", () => {
    const { coded, invalid, refused } = internal.node;
    const { Buffer } = internal.use("buffer");
    const EventEmitter = /** @type {any} */ (internal.use("events"));
    const { calls: pathCalls } = internal.use("fsCalls");
    const { calls: fileCalls, transfers } = internal.use("fsOpen");
    const { ReadStream, WriteStream } = internal.use("fsStreams");
    const Dir = internal.use("fsDirectory");
    const constants = internal.use("fsConstants");

    // Converts a function to one that returns a promise and is not a constructor.
    const asynchronous = (call) => async (...args) => call(...args);

    class FileHandle extends EventEmitter {
      #fd;
      constructor(fd) {
        super();
        this.#fd = fd;
      }
      get fd() {
        return this.#fd;
      }
      #open() {
        if (this.#fd === -1) throw coded(Error, "EBADF", "file closed");
        return this.#fd;
      }
      async appendFile(data, options = undefined) {
        await writeFile(this, data, options);
      }
      async chmod(mode) {
        fileCalls.fchmod(this.#open(), mode);
      }
      async chown() {
        fileCalls.fchown(this.#open());
      }
      async close() {
        if (this.#fd === -1) return;
        const fd = this.#fd;
        this.#fd = -1;
        fileCalls.close(fd);
        this.emit("close");
      }
      createReadStream(options = undefined) {
        return new ReadStream(undefined, { ...options, fd: this });
      }
      createWriteStream(options = undefined) {
        return new WriteStream(undefined, { ...options, fd: this });
      }
      async datasync() {
        fileCalls.fdatasync(this.#open());
      }
      async read(buffer = undefined, offset = undefined, length = undefined, position = undefined) {
        if (!ArrayBufferIsView(buffer)) ({ buffer = Buffer.alloc(16384), offset, length, position } = buffer ?? {});
        return { bytesRead: transfers.read(this.#open(), buffer, offset, length, position), buffer };
      }
      async readFile(options = undefined) {
        return fileCalls.readFile(this.#open(), options);
      }
      readLines(options = undefined) {
        return internal.find("readline").createInterface({ input: this.createReadStream(options), crlfDelay: 1 / 0 });
      }
      readableWebStream() {
        return internal.use("streamWeb").readableToWeb(this.createReadStream({ autoClose: false }));
      }
      async readv(buffers, position = undefined) {
        return { bytesRead: transfers.readv(this.#open(), buffers, position), buffers };
      }
      async stat(options = undefined) {
        return fileCalls.fstat(this.#open(), options);
      }
      async sync() {
        fileCalls.fsync(this.#open());
      }
      async truncate(length = 0) {
        fileCalls.ftruncate(this.#open(), length);
      }
      async utimes(accessed, modified) {
        fileCalls.futimes(this.#open(), accessed, modified);
      }
      async write(data, offset = undefined, length = undefined, position = undefined) {
        return { bytesWritten: transfers.write(this.#open(), data, offset, length, position), buffer: data };
      }
      async writeFile(data, options = undefined) {
        await writeFile(this, data, options);
      }
      async writev(buffers, position = undefined) {
        return { bytesWritten: transfers.writev(this.#open(), buffers, position), buffers };
      }
      async [SymbolAsyncDispose]() {
        await this.close();
      }
    }

    // Returns the descriptor of a FileHandle. Returns a descriptor or a path unchanged.
    const targetOf = (file) => (file instanceof FileHandle ? file.fd : file);
    const optionsOf = (options) => (typeof options === "string" ? { encoding: options } : options);

    // The data may be an iterable, such as a stream, whose pieces are written in turn.
    async function writeFile(file, data, options = undefined) {
      const target = targetOf(file);
      if (typeof data === "string" || ArrayBufferIsView(data)) {
        fileCalls.writeFile(target, data, options);
        return;
      }
      if (typeof data?.[SymbolAsyncIterator] !== "function" && typeof data?.[SymbolIterator] !== "function") {
        throw invalid("data", "of type string or an instance of Buffer, TypedArray, DataView, or Stream", data);
      }
      const fd = typeof target === "number" ? target : fileCalls.open(target, options?.flag ?? "w", options?.mode);
      try {
        for await (const chunk of data) fileCalls.writeFile(fd, chunk, options);
      } finally {
        if (fd !== target) fileCalls.close(fd);
      }
    }

    const promises = {};
    for (const name of Object.keys(pathCalls)) promises[name] = asynchronous(pathCalls[name]);
    return ObjectAssign(promises, {
      constants, writeFile,
      appendFile: (file, data, options = undefined) => writeFile(file, data, { flag: "a", ...optionsOf(options) }),
      lchmod: asynchronous(() => {
        throw refused("fs.lchmod", "symbolic links have no permissions");
      }),
      open: async (path, flags = "r", mode = 0o666) => new FileHandle(fileCalls.open(path, flags, mode)),
      opendir: async (path, options = undefined) => new Dir(path, options),
      readFile: async (file, options = undefined) => fileCalls.readFile(targetOf(file), options),
      truncate: async (path, length = 0) => fileCalls.truncate(path, length),
      async *watch() {
        throw refused("fs.watch", "no other program changes the files of a Worker");
      },
    });
  });
})
