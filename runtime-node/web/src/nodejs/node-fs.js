// node:fs: the exports of the module. The callback forms call the synchronous forms: nothing ever
// waits for a disk.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, ObjectAssign, ObjectDefineProperty, SymbolFor } = internal.primordials;

  internal.define("fs", () => {
    const { needFunction, refused } = internal.node;
    const { nextTick } = internal.use("process");
    const { existing, pathOf } = internal.use("fsTree");
    const { Dirent, Stats } = internal.use("fsStats");
    const { calls: pathCalls } = internal.use("fsCalls");
    const { calls: fileCalls, transfers } = internal.use("fsOpen");
    const { ReadStream, WriteStream } = internal.use("fsStreams");
    const Dir = internal.use("fsDirectory");
    const constants = internal.use("fsConstants");

    const exported = {};

    // Returns the form of a call whose last argument is a callback. Invalid arguments throw. Errors
    // of the system call, which have the property `syscall`, and the error that a file is too large
    // are passed to the callback. `more` returns further results for the callback.
    const withCallback = (call, /** @type {(...args: any[]) => any[]} */ more = () => []) => (...args) => {
      const callback = needFunction(args.pop(), "cb");
      let result;
      try {
        result = call(...args);
      } catch (/** @type {any} */ error) {
        if (error?.syscall === undefined && error?.code !== "ERR_FS_FILE_TOO_LARGE") throw error;
        nextTick(callback, error);
        return;
      }
      if (result === undefined) nextTick(callback, null);
      else nextTick(callback, null, result, ...more(...args));
    };

    const opendir = (path, options = undefined) => new Dir(pathOf(path), options);
    const all = { ...pathCalls, ...fileCalls, opendir };
    for (const name of Object.keys(all)) {
      exported[`${name}Sync`] = all[name];
      exported[name] = withCallback(all[name]);
    }
    for (const name of Object.keys(transfers)) {
      exported[`${name}Sync`] = transfers[name];
      exported[name] = withCallback(transfers[name], (fd, data) => [data]);
    }
    // Also accepts read(fd, {buffer, …}, callback) and read(fd, callback). Allocates a buffer if
    // none is given.
    const { read } = exported;
    exported.read = (fd, given, ...rest) => {
      const { Buffer } = internal.use("buffer");
      if (typeof given === "function") return read(fd, Buffer.alloc(16384), given);
      if (ArrayBufferIsView(given)) return read(fd, given, ...rest);
      const { buffer = Buffer.alloc(16384), offset, length, position } = given ?? {};
      return read(fd, buffer, offset, length, position, ...rest);
    };

    function existsSync(path) {
      try {
        existing(pathOf(path), "access");
        return true;
      } catch {
        return false;
      }
    }
    const exists = (path, callback) => nextTick(needFunction(callback, "cb"), existsSync(path));
    const custom = SymbolFor("nodejs.util.promisify.custom");
    ObjectDefineProperty(exists, custom, { __proto__: null, value: async (path) => existsSync(path), configurable: true });
    exported.realpath.native = exported.realpath;
    exported.realpathSync.native = exported.realpathSync;

    const unsupported = (name, why) => () => {
      throw refused(`fs.${name}`, why);
    };
    const noWatching = "no other program changes the files of a Worker";
    const { F_OK, R_OK, W_OK, X_OK } = constants;
    return ObjectAssign(exported, {
      Dir, Dirent, F_OK, R_OK, ReadStream, Stats, W_OK, WriteStream, X_OK, constants, exists, existsSync,
      FileReadStream: ReadStream,
      FileWriteStream: WriteStream,
      createReadStream: (path, options = undefined) => new ReadStream(path, options),
      createWriteStream: (path, options = undefined) => new WriteStream(path, options),
      glob: unsupported("glob", "patterns of paths are not supported"),
      globSync: unsupported("globSync", "patterns of paths are not supported"),
      promises: internal.use("fsPromises"),
      unwatchFile() {},
      watch: unsupported("watch", noWatching),
      watchFile: unsupported("watchFile", noWatching),
    });
  });
})
