// node:fs: open files, and the functions that read or write a whole file, in their synchronous
// form.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, RangeError, Uint8Array } = internal.primordials;

  internal.define("fsConstants", () => ({
    F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4,
    O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 0o100, O_EXCL: 0o200, O_NOCTTY: 0o400, O_TRUNC: 0o1000, O_APPEND: 0o2000,
    O_NONBLOCK: 0o4000, O_DSYNC: 0o10000, O_DIRECTORY: 0o200000, O_NOFOLLOW: 0o400000, O_NOATIME: 0o1000000, O_SYNC: 0o4010000,
    S_IFMT: 0o170000, S_IFREG: 0o100000, S_IFDIR: 0o040000, S_IFCHR: 0o020000, S_IFBLK: 0o060000, S_IFIFO: 0o010000,
    S_IFLNK: 0o120000, S_IFSOCK: 0o140000, S_IRWXU: 0o700, S_IRUSR: 0o400, S_IWUSR: 0o200, S_IXUSR: 0o100, S_IRWXG: 0o070,
    S_IRGRP: 0o040, S_IWGRP: 0o020, S_IXGRP: 0o010, S_IRWXO: 0o007, S_IROTH: 0o004, S_IWOTH: 0o002, S_IXOTH: 0o001,
    UV_FS_SYMLINK_DIR: 1, UV_FS_SYMLINK_JUNCTION: 2, UV_DIRENT_UNKNOWN: 0, UV_DIRENT_FILE: 1, UV_DIRENT_DIR: 2, UV_DIRENT_LINK: 3,
    UV_FS_COPYFILE_EXCL: 1, UV_FS_COPYFILE_FICLONE: 2, UV_FS_COPYFILE_FICLONE_FORCE: 4, UV_FS_O_FILEMAP: 0,
  }));

  internal.define("fsOpen", () => {
    const { badValue, coded, invalid, needInteger, outOfRange } = internal.node;
    const { Buffer } = internal.use("buffer");
    const tree = internal.use("fsTree");
    const { addOpen, failure, find, invocationState, openOf, pathOf, removeOpen } = tree;
    const { nextTick } = internal.use("process");
    const { statsOf } = internal.use("fsStats");
    const { modeOf, setTimes } = internal.use("fsCalls");
    const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDWR, O_TRUNC, O_WRONLY } = internal.use("fsConstants");

    const FLAGS = {
      __proto__: null, r: 0, "r+": O_RDWR, w: O_WRONLY | O_CREAT | O_TRUNC, "w+": O_RDWR | O_CREAT | O_TRUNC,
      a: O_WRONLY | O_CREAT | O_APPEND, "a+": O_RDWR | O_CREAT | O_APPEND,
    };
    function flagsOf(flags) {
      if (flags === undefined || flags === null) return 0;
      if (typeof flags === "number") return needInteger(flags, "flags", 0, 2 ** 31 - 1);
      // `s` requests synchronous writes, and all writes are synchronous; `x` requests a new file.
      const known = typeof flags === "string" ? FLAGS[flags.replace(/[sx]/, "")] : undefined;
      const exclusive = typeof flags === "string" && flags.includes("x");
      if (known === undefined || (exclusive && (known & O_CREAT) === 0)) throw badValue("flags", flags);
      return exclusive ? known | O_EXCL : known;
    }
    const reads = (flags) => (flags & O_WRONLY) === 0;
    const writes = (flags) => (flags & (O_WRONLY | O_RDWR)) !== 0;

    // Opens or creates the file at a path. Returns the open file: {inode, flags, position, path}.
    function openPath(path, flags, mode) {
      const name = pathOf(path);
      const found = find(name, "open", (flags & O_NOFOLLOW) === 0 && (flags & O_EXCL) === 0, path);
      let { inode } = found;
      if (inode === undefined) {
        if ((flags & O_CREAT) === 0) throw failure("ENOENT", "open", path);
        if (found.directory.isFixed) throw failure("EROFS", "open", path);
        if (name.endsWith("/")) throw failure("EISDIR", "open", path);
        inode = new tree.File(mode);
        found.directory.set(found.name, inode);
      } else {
        if ((flags & O_EXCL) !== 0 && (flags & O_CREAT) !== 0) throw failure("EEXIST", "open", path);
        if (inode.kind === "link") throw failure("ELOOP", "open", path);
        if (inode.kind === "directory" && writes(flags)) throw failure("EISDIR", "open", path);
        if (inode.kind !== "directory" && (flags & O_DIRECTORY) !== 0) throw failure("ENOTDIR", "open", path);
        if (inode.isFixed && inode.kind === "file" && writes(flags)) throw failure("EROFS", "open", path);
        if ((flags & O_TRUNC) !== 0 && writes(flags)) inode.resize(0);
      }
      return { inode, flags, position: 0, path: name };
    }

    // ---- Standard output

    // The length above which an unfinished line is logged, in code units.
    const LONGEST_LINE = 1 << 16;
    const log = (fd, text) => internal.console[fd === 2 ? "error" : "log"](text);

    // Logs the lines that the bytes complete. The invocation keeps the unfinished line of each
    // descriptor until the end of the tick.
    function print(fd, bytes) {
      const unfinished = (invocationState().unfinished ??= ["", "", ""]);
      const text = unfinished[fd] + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
      const end = text.lastIndexOf("\n");
      if (end >= 0) log(fd, text.slice(0, end));
      const remainder = text.slice(end + 1);
      if (remainder !== "" && unfinished[fd] === "") nextTick(finishLine, unfinished, fd);
      unfinished[fd] = remainder;
      if (remainder.length > LONGEST_LINE) finishLine(unfinished, fd);
      return bytes.length;
    }
    function finishLine(unfinished, fd) {
      if (unfinished[fd] !== "") log(fd, unfinished[fd]);
      unfinished[fd] = "";
    }

    // ---- Bytes

    function bytesOf(data, encoding, name = "data") {
      if (typeof data === "string") return Buffer.from(data, encoding ?? "utf8");
      if (ArrayBufferIsView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      throw invalid(name, "of type string or an instance of Buffer, TypedArray, or DataView", data);
    }
    const needPosition = (position) => {
      if (position === undefined || position === null || position === -1) return null;
      if (typeof position === "bigint") return Number(position);
      return needInteger(position, "position", 0);
    };

    function readInto(file, target, position) {
      const { inode } = file;
      if (inode.kind === "directory") throw failure("EISDIR", "read");
      if (!reads(file.flags)) throw failure("EBADF", "read");
      let count = 0;
      while (count < target.length) {
        const bytes = inode.read((position ?? file.position) + count, target.length - count);
        if (bytes.length === 0) break;
        target.set(bytes, count);
        count += bytes.length;
      }
      if (position === null) file.position += count;
      return count;
    }
    function writeFrom(file, bytes, position) {
      const { inode } = file;
      if (!writes(file.flags)) throw failure("EBADF", "write");
      const appends = (file.flags & O_APPEND) !== 0;
      const at = appends ? inode.size : position ?? file.position;
      if (bytes.length > 0) inode.write(bytes, at);
      if (appends || position === null) file.position = at + bytes.length;
      return bytes.length;
    }

    // Takes the arguments (buffer, offset, length, position) or (buffer, {offset, length,
    // position}). Returns the part of the buffer, and the position in the file.
    function partOf(buffer, offset, length, position) {
      if (!ArrayBufferIsView(buffer)) throw invalid("buffer", "an instance of Buffer, TypedArray, or DataView", buffer);
      if (typeof offset === "object" && offset !== null) ({ offset, length, position } = offset);
      const view = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
      const from = needInteger(offset ?? 0, "offset", 0);
      if (from > view.length) throw outOfRange("offset", `>= 0 && <= ${view.length}`, from);
      const count = needInteger(length ?? view.length - from, "length", 0);
      if (count > view.length - from) throw outOfRange("length", `>= 0 && <= ${view.length - from}`, count);
      return { view: view.subarray(from, from + count), position: needPosition(position) };
    }

    const open = (path, flags = "r", mode = 0o666) => addOpen(openPath(path, flagsOf(flags), modeOf(mode ?? 0o666)), path);

    function read(fd, buffer, offset, length, position) {
      const { view, position: at } = partOf(buffer, offset, length, position);
      return fd === 0 ? 0 : readInto(openOf(fd, "read"), view, at);
    }
    function write(fd, data, offset, length, position) {
      let bytes, at;
      if (typeof data === "string") {
        bytes = Buffer.from(data, typeof length === "string" ? length : "utf8");
        at = needPosition(typeof offset === "number" ? offset : undefined);
      } else ({ view: bytes, position: at } = partOf(data, offset, length, position));
      return fd === 1 || fd === 2 ? print(fd, bytes) : writeFrom(openOf(fd, "write"), bytes, at);
    }

    // ---- Whole files

    const optionsOf = (options) => (typeof options === "string" ? { encoding: options } : options ?? {});
    const openFileOf = (file, syscall, flags, mode) => (typeof file === "number" ? openOf(file, syscall) : openPath(file, flagsOf(flags), modeOf(mode ?? 0o666)));

    function readFile(path, options = undefined) {
      const { encoding, flag = "r" } = optionsOf(options);
      if (encoding && encoding !== "buffer" && !Buffer.isEncoding(encoding)) throw badValue("encoding", encoding);
      if (path === 0) return encoding ? "" : Buffer.alloc(0);
      const file = openFileOf(path, "read", flag, undefined);
      const { inode } = file;
      if (inode.kind === "directory") throw failure("EISDIR", "read");
      if (inode.isEndless) throw coded(RangeError, "ERR_FS_FILE_TOO_LARGE", `File size (${Infinity}) is greater than 2 GiB`);
      if (!reads(file.flags)) throw failure("EBADF", "read");
      const bytes = inode.read(file.position, inode.size);
      file.position += bytes.length;
      const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
    }
    function writeFile(path, data, options = undefined) {
      const { encoding, flag = "w", mode } = optionsOf(options);
      const bytes = bytesOf(data, encoding);
      if (path === 1 || path === 2) print(path, bytes);
      else writeFrom(openFileOf(path, "write", flag, mode), bytes, null);
    }
    const resize = (file, length = 0) => {
      needInteger(length, "len");
      if (!writes(file.flags)) throw failure("EINVAL", "ftruncate");
      file.inode.resize(Math.max(0, length));
    };
    const changeable = (fd, syscall) => {
      const { inode } = openOf(fd, syscall);
      if (inode.isFixed) throw failure("EROFS", syscall);
      return inode;
    };
    const joined = (views) => Buffer.concat(views.map((view) => bytesOf(view, undefined, "buffers")));

    const calls = {
      open, readFile, writeFile,
      appendFile: (path, data, options = undefined) => writeFile(path, data, { flag: "a", ...optionsOf(options) }),
      close: (fd) => removeOpen(fd),
      fchmod(fd, mode) {
        changeable(fd, "fchmod").mode = modeOf(mode);
      },
      fchown(fd) {
        openOf(fd, "fchown");
      },
      fdatasync(fd) {
        if (fd > 2) openOf(fd, "fdatasync");
      },
      fstat: (fd, options = undefined) =>
        statsOf(fd <= 2 && fd >= 0 ? tree.existing("/dev/null", "fstat") : openOf(fd, "fstat").inode, options),
      fsync(fd) {
        if (fd > 2) openOf(fd, "fsync");
      },
      ftruncate: (fd, length = 0) => resize(openOf(fd, "ftruncate"), length),
      futimes: (fd, accessed, modified) => setTimes(changeable(fd, "futime"), accessed, modified),
      truncate: (path, length = 0) => resize(typeof path === "number" ? openOf(path, "ftruncate") : openPath(path, O_RDWR, 0o666), length),
    };
    // These functions pass more than one result to a callback.
    const transfers = {
      read, write,
      readv(fd, buffers, position = undefined) {
        let count = 0;
        for (const buffer of buffers) {
          const got = read(fd, buffer, { position: typeof position === "number" ? position + count : null });
          count += got;
          if (got < buffer.byteLength) break;
        }
        return count;
      },
      writev: (fd, buffers, position = undefined) => write(fd, joined(buffers), { position: typeof position === "number" ? position : null }),
    };
    return { bytesOf, calls, transfers };
  });
})
