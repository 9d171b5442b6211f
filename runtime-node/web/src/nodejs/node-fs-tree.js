// node:fs: the tree of files, paths in it, and the errors of system calls.
//
//   /bundle   the Worker's modules, which cannot be changed
//   /dev      full, null, random, zero
//   /tmp      the files of the running invocation, which are removed when it ends
//
// A file's content is an array buffer, and counts toward the isolate's memory. No function here
// recurses, because the depth of a tree is bounded only by memory.
//: module
(function (internal) {
  "use strict";

  const { ArrayBufferIsView, DateNow, Error, Map, RangeError, Uint8Array } = internal.primordials;
  const { ops } = internal;

  internal.define("fsTree", () => {
    const { badValue, coded, invalid } = internal.node;
    const { Buffer } = internal.use("buffer");

    // ---- Errors

    const ERRORS = {
      __proto__: null,
      EBADF: [-9, "bad file descriptor"], EACCES: [-13, "permission denied"], EEXIST: [-17, "file already exists"],
      EFBIG: [-27, "file too large"], EINVAL: [-22, "invalid argument"], EISDIR: [-21, "illegal operation on a directory"],
      ELOOP: [-40, "too many symbolic links encountered"], EMFILE: [-24, "too many open files"],
      ENAMETOOLONG: [-36, "name too long"], ENOENT: [-2, "no such file or directory"], ENOSPC: [-28, "no space left on device"],
      ENOTDIR: [-20, "not a directory"], ENOTEMPTY: [-39, "directory not empty"], EPERM: [-1, "operation not permitted"],
      EROFS: [-30, "read-only file system"], EXDEV: [-18, "cross-device link not permitted"],
    };
    /** @param {any} [path] @param {any} [dest] */
    function failure(code, syscall, path = undefined, dest = undefined) {
      const { 0: errno, 1: why } = ERRORS[code];
      const where = path === undefined ? "" : ` '${path}'${dest === undefined ? "" : ` -> '${dest}'`}`;
      const error = /** @type {any} */ (new Error(`${code}: ${why}, ${syscall}${where}`));
      Object.assign(error, { errno, code, syscall });
      if (path !== undefined) error.path = path;
      if (dest !== undefined) error.dest = dest;
      return error;
    }

    // ---- Inodes

    const KINDS = { __proto__: null, device: 0o020000, directory: 0o040000, file: 0o100000, link: 0o120000 };
    let lastNumber = 0;

    // A file, directory, symbolic link or device. Any number of directory entries may name it.
    class Inode {
      kind;
      // The permissions.
      mode;
      // Whether a Worker cannot change the inode. A Worker can still write to a device.
      isFixed;
      links = 1;
      number = ++lastNumber;
      accessed;
      modified;
      changed;
      created;
      constructor(kind, mode, isFixed) {
        this.kind = kind;
        this.mode = mode;
        this.isFixed = isFixed;
        this.accessed = this.modified = this.changed = this.created = isFixed ? 0 : DateNow();
      }
      get size() {
        return 0;
      }
      touch() {
        this.modified = this.changed = DateNow();
      }
    }

    class Directory extends Inode {
      entries = new Map();
      parent;
      constructor(parent, mode = 0o777, isFixed = false) {
        super("directory", mode, isFixed);
        this.parent = parent ?? this;
      }
      get(name) {
        return this.entries.get(name);
      }
      names() {
        return [...this.entries.keys()];
      }
      set(name, inode) {
        this.entries.set(name, inode);
        if (inode.kind === "directory") inode.parent = this;
        this.touch();
      }
      remove(name) {
        this.entries.get(name).links--;
        this.entries.delete(name);
        this.touch();
      }
    }

    class Link extends Inode {
      target;
      constructor(target) {
        super("link", 0o777, false);
        this.target = target;
      }
      get size() {
        return Buffer.byteLength(this.target);
      }
    }

    // The maximum size of a file, in bytes. A write that does not fit into the Worker's memory
    // throws a RangeError, as the creation of an array buffer does.
    const LARGEST = 2 ** 30;
    class File extends Inode {
      // The content is at the beginning of this array, which has room for further writes.
      #bytes = new Uint8Array(0);
      #size = 0;
      constructor(mode = 0o666) {
        super("file", mode, false);
      }
      get size() {
        return this.#size;
      }
      // Returns a copy of up to `max` bytes.
      read(from, max) {
        return this.#bytes.slice(from, Math.min(this.#size, from + max));
      }
      write(bytes, at) {
        const end = at + bytes.length;
        if (end > this.#size) this.resize(end);
        this.#bytes.set(bytes, at);
        this.touch();
      }
      resize(size) {
        if (size > this.#bytes.length) {
          if (size > LARGEST) throw failure("EFBIG", "write");
          const grown = new Uint8Array(Math.max(size, Math.min(2 * this.#bytes.length, this.#bytes.length + (1 << 20))));
          grown.set(this.#bytes.subarray(0, this.#size));
          this.#bytes = grown;
        } else if (size < this.#size) {
          this.#bytes.fill(0, size, this.#size);
          if (size === 0) this.#bytes = new Uint8Array(0);
        }
        this.#size = size;
        this.touch();
      }
    }

    // A module of the Worker.
    class Module extends Inode {
      #name;
      constructor(name) {
        super("file", 0o444, true);
        this.#name = name;
      }
      get size() {
        return ops.bundleLength(this.#name);
      }
      read(from, max) {
        return ops.bundleRead(this.#name, Math.min(from, 2 ** 32 - 1), Math.min(max, 2 ** 32 - 1));
      }
      write() {
        throw failure("EROFS", "write");
      }
      resize() {
        throw failure("EROFS", "ftruncate");
      }
    }

    // The maximum number of bytes that a read of an endless device returns.
    const ENDLESS = 1 << 16;
    class Device extends Inode {
      name;
      constructor(name) {
        super("device", 0o666, true);
        this.name = name;
      }
      get isEndless() {
        return this.name !== "null";
      }
      read(from, max) {
        const bytes = new Uint8Array(this.isEndless ? Math.min(max, ENDLESS) : 0);
        if (this.name === "random" && bytes.length > 0) ops.randomFill(bytes);
        return bytes;
      }
      write() {
        if (this.name === "full") throw failure("ENOSPC", "write");
      }
      resize() {}
    }

    // ---- The tree

    class Root extends Directory {
      constructor() {
        super(undefined, 0o555, true);
      }
      get(name) {
        return name === "tmp" ? invocationState().tmp : this.entries.get(name);
      }
      names() {
        return ["bundle", "dev", "tmp"];
      }
    }
    const root = new Root();
    const fixed = (parent, name) => {
      const directory = new Directory(parent, 0o555, true);
      parent.entries.set(name, directory);
      return directory;
    };
    const devices = fixed(root, "dev");
    for (const name of ["full", "null", "random", "zero"]) devices.entries.set(name, new Device(name));
    const bundle = fixed(root, "bundle");
    for (const path of ops.bundleNames()) {
      let directory = bundle;
      const parts = path.split("/").filter((part) => part !== "" && part !== "." && part !== "..");
      const name = parts.pop();
      for (const part of parts) {
        const next = directory.entries.get(part) ?? fixed(directory, part);
        if (next.kind === "directory") directory = next;
      }
      if (name !== undefined) directory.entries.set(name, new Module(path));
    }

    // Returns the state of the running invocation: its directory /tmp, its open files and, after a
    // write to the descriptor 1 or 2, the unfinished lines of these descriptors.
    function invocationState() {
      const state = /** @type {any} */ (ops.invocationObject());
      if (state === undefined) throw failure("EPERM", "open", "/tmp");
      if (state.tmp === undefined) {
        state.tmp = new Directory(root);
        state.open = new Map();
      }
      return state;
    }

    // ---- Paths

    const LONGEST_PATH = 4096;
    const LONGEST_NAME = 255;
    const MAX_LINKS = 40;

    // Converts an argument to a path.
    function pathOf(value, name = "path") {
      let path = value;
      if (internal.isURL(value)) path = internal.use("url").fileURLToPath(value);
      else if (ArrayBufferIsView(value)) path = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString();
      if (typeof path !== "string") throw invalid(name, "of type string or an instance of Buffer or URL", value);
      if (path.includes("\0")) throw badValue(name, path, "must be a string, Uint8Array, or URL without null bytes");
      return path;
    }

    // Finds the inode at a path: {directory, name, inode}. `directory` contains the inode as
    // `name`, or, if `inode` is undefined, would contain it. `name` is undefined for the root.
    // Errors name the paths `first` and `dest`, which the Worker passed.
    /** @param {any} [dest] */
    function find(path, syscall, follow = true, first = path, dest = undefined) {
      const fail = (code) => failure(code, syscall, first, dest);
      if (path === "") throw fail("ENOENT");
      if (path.length > LONGEST_PATH) throw fail("ENAMETOOLONG");
      const remaining = path.split("/").reverse();
      // The working directory is the root.
      let directory = /** @type {any} */ (root);
      let links = 0;
      let name;
      let inode = /** @type {any} */ (root);
      while (remaining.length > 0) {
        const part = remaining.pop();
        if (part === "" || part === ".") {
          if (inode !== undefined && inode.kind !== "directory") throw fail("ENOTDIR");
          continue;
        }
        if (inode === undefined) throw fail("ENOENT");
        if (inode.kind !== "directory") throw fail("ENOTDIR");
        if (part === "..") {
          inode = inode.parent;
          directory = inode.parent;
          name = inode === root ? undefined : nameIn(directory, inode);
          continue;
        }
        if (part.length > LONGEST_NAME) throw fail("ENAMETOOLONG");
        directory = inode;
        name = part;
        inode = directory.get(part);
        if (inode?.kind === "link" && (follow || remaining.some((more) => more !== ""))) {
          if (++links > MAX_LINKS) throw fail("ELOOP");
          for (const more of inode.target.split("/").reverse()) remaining.push(more);
          inode = inode.target[0] === "/" ? root : directory;
        }
      }
      return { directory, name, inode };
    }
    function nameIn(directory, inode) {
      if (directory === root && inode === invocationState().tmp) return "tmp";
      for (const [name, entry] of directory.entries) if (entry === inode) return name;
      return undefined;
    }

    // Returns the inode at a path, which must exist.
    /** @param {any} [dest] */
    function existing(path, syscall, follow = true, first = path, dest = undefined) {
      const found = find(path, syscall, follow, first, dest);
      if (found.inode === undefined) throw failure("ENOENT", syscall, first, dest);
      return found.inode;
    }

    // Finds the place of an entry that is about to be made or removed, as `find` does. Throws if
    // the directory cannot be changed.
    /** @param {any} [dest] */
    function writable(path, syscall, follow = false, first = path, dest = undefined) {
      const found = find(path, syscall, follow, first, dest);
      if (found.name === undefined || found.directory.isFixed) {
        throw failure(found.inode === undefined || syscall !== "mkdir" ? "EROFS" : "EEXIST", syscall, first, dest);
      }
      return found;
    }

    // Returns the path, without symbolic links, of an existing inode.
    function realPath(path, syscall) {
      const parts = [];
      let { directory, name, inode } = find(path, syscall);
      if (inode === undefined) throw failure("ENOENT", syscall, path);
      while (name !== undefined) {
        parts.push(name);
        inode = directory;
        directory = inode.parent;
        name = inode === root ? undefined : nameIn(directory, inode);
      }
      return `/${parts.reverse().join("/")}`;
    }

    // ---- Open files

    const MAX_OPEN = 1024;
    function addOpen(entry, path) {
      const { open } = invocationState();
      if (open.size >= MAX_OPEN) throw failure("EMFILE", "open", path);
      let fd = 3;
      while (open.has(fd)) fd++;
      open.set(fd, entry);
      return fd;
    }
    function needDescriptor(fd) {
      if (typeof fd !== "number") throw invalid("fd", "of type number", fd);
      if (fd % 1 !== 0 || fd < 0 || fd > 2 ** 31 - 1) {
        throw coded(RangeError, "ERR_OUT_OF_RANGE",
          `The value of "fd" is out of range. It must be >= 0 && <= 2147483647. Received ${fd}`);
      }
      return fd;
    }
    function openOf(fd, syscall) {
      const entry = invocationState().open.get(needDescriptor(fd));
      if (entry === undefined) throw failure("EBADF", syscall);
      return entry;
    }
    function removeOpen(fd) {
      if (!invocationState().open.delete(needDescriptor(fd))) throw failure("EBADF", "close");
    }

    return {
      Device, Directory, File, KINDS, Link, addOpen, existing, failure, find, invocationState, openOf, pathOf, realPath, removeOpen,
      root, writable,
    };
  });
})
