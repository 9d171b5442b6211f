// node:fs: Stats and Dirent, and the functions that work on paths, in their synchronous form, from
// which the other forms are made.
//: module
(function (internal) {
  "use strict";

  const { BigInt, Date, DateNow, Error, Uint8Array } = internal.primordials;
  const { ops } = internal;

  internal.define("fsStats", () => {
    const { defineHidden } = internal.node;
    const { KINDS } = internal.use("fsTree");
    const kindOf = (stats) => Number(stats.mode) & 0o170000;

    /** @returns {void} */
    function Stats() {}
    defineHidden(Stats.prototype, {
      isBlockDevice: () => false,
      isCharacterDevice() { return kindOf(this) === KINDS.device; },
      isDirectory() { return kindOf(this) === KINDS.directory; },
      isFIFO: () => false,
      isFile() { return kindOf(this) === KINDS.file; },
      isSocket: () => false,
      isSymbolicLink() { return kindOf(this) === KINDS.link; },
    });

    function statsOf(inode, options) {
      const stats = new Stats();
      const big = options?.bigint === true;
      const number = big ? BigInt : Number;
      const { size } = inode;
      const numbers = {
        dev: 1, mode: KINDS[inode.kind] | inode.mode, nlink: inode.links, uid: 0, gid: 0, rdev: 0, blksize: 4096, ino: inode.number, size,
        blocks: Math.ceil(size / 512),
      };
      for (const name in numbers) stats[name] = number(numbers[name]);
      const times = { atime: inode.accessed, mtime: inode.modified, ctime: inode.changed, birthtime: inode.created };
      for (const name in times) {
        stats[`${name}Ms`] = number(Math.trunc(times[name]));
        if (big) stats[`${name}Ns`] = BigInt(Math.trunc(times[name])) * 1000000n;
        stats[name] = new Date(times[name]);
      }
      return stats;
    }

    class Dirent {
      name;
      parentPath;
      #kind;
      constructor(name, parentPath, kind) {
        this.name = name;
        this.parentPath = parentPath;
        this.#kind = kind;
      }
      get path() { return this.parentPath; }
      isBlockDevice() { return false; }
      isCharacterDevice() { return this.#kind === "device"; }
      isDirectory() { return this.#kind === "directory"; }
      isFIFO() { return false; }
      isFile() { return this.#kind === "file"; }
      isSocket() { return false; }
      isSymbolicLink() { return this.#kind === "link"; }
    }
    return { Dirent, Stats, statsOf };
  });

  internal.define("fsCalls", () => {
    const { coded, invalid, needInteger } = internal.node;
    const { Buffer } = internal.use("buffer");
    const tree = internal.use("fsTree");
    const { Dirent, statsOf } = internal.use("fsStats");
    const { Directory, Link, existing, failure, find, pathOf, writable } = tree;

    const encoded = (text, options) => {
      const encoding = typeof options === "string" ? options : options?.encoding;
      if (encoding === undefined || encoding === null || encoding === "utf8" || encoding === "utf-8") return text;
      return encoding === "buffer" ? Buffer.from(text) : Buffer.from(text).toString(encoding);
    };

    // Converts a time, which is a Date or a number of seconds, to milliseconds.
    function timeOf(value, name) {
      const time = value instanceof Date ? value.getTime() : Number(value) * 1000;
      if (time !== time || Math.abs(time) === Infinity) throw invalid(name, "an instance of Date or of type number", value);
      return time;
    }
    function modeOf(mode, name = "mode") {
      if (typeof mode === "string" && /^[0-7]+$/.test(mode)) return parseInt(mode, 8) & 0o7777;
      return needInteger(mode, name, 0, 2 ** 32 - 1) & 0o7777;
    }
    function changeable(path, syscall, follow = true) {
      const inode = existing(pathOf(path), syscall, follow);
      if (inode.isFixed) throw failure("EROFS", syscall, path);
      return inode;
    }
    const setTimes = (inode, accessed, modified) => {
      inode.accessed = timeOf(accessed, "atime");
      inode.modified = timeOf(modified, "mtime");
      inode.changed = DateNow();
    };

    // Returns an error whose code is one of Node.js and not of the operating system. The form of a
    // function with a callback passes an error to the callback only if the error has the property
    // `syscall`, so this error has it.
    const systemError = (code, errno, syscall, path, message) =>
      Object.assign(coded(Error, code, message), { name: "SystemError", errno, syscall, path });

    const W_OK = 2, X_OK = 1, COPYFILE_EXCL = 1;
    const EEXIST = 17, EISDIR = 21, EINVAL = 22;

    function access(path, mode = 0) {
      needInteger(mode, "mode", 0, 7);
      const inode = existing(pathOf(path), "access");
      if (mode & W_OK && inode.isFixed && inode.kind !== "device") throw failure("EROFS", "access", path);
      if (mode & X_OK && inode.kind !== "directory" && (inode.mode & 0o111) === 0) throw failure("EACCES", "access", path);
    }

    function stats(path, options, syscall, follow) {
      const name = pathOf(path);
      if (options?.throwIfNoEntry !== false) return statsOf(existing(name, syscall, follow), options);
      try {
        return statsOf(existing(name, syscall, follow), options);
      } catch (/** @type {any} */ error) {
        if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
        return undefined;
      }
    }

    function mkdir(path, options = undefined) {
      const name = pathOf(path);
      const recursive = options?.recursive === true;
      const mode = modeOf((typeof options === "object" ? options?.mode : options) ?? 0o777);
      if (!recursive) {
        const { directory, name: last, inode } = find(name, "mkdir", false);
        if (inode !== undefined) throw failure("EEXIST", "mkdir", path);
        if (directory.isFixed) throw failure("EROFS", "mkdir", path);
        directory.set(last, new Directory(directory, mode));
        return undefined;
      }
      // Creates each missing directory in turn.
      let first;
      const parts = name.split("/");
      for (let i = 1; i <= parts.length; i++) {
        const part = parts.slice(0, i).join("/");
        if (part === "") continue;
        const { directory, name: last, inode } = find(part, "mkdir", true, path);
        if (inode !== undefined) {
          if (inode.kind !== "directory") throw failure(i === parts.length ? "EEXIST" : "ENOTDIR", "mkdir", path);
          continue;
        }
        if (directory.isFixed) throw failure("EROFS", "mkdir", path);
        directory.set(last, new Directory(directory, mode));
        first ??= part;
      }
      return first;
    }

    function mkdtemp(prefix, options = undefined) {
      const start = pathOf(prefix, "prefix");
      const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
      const random = new Uint8Array(6);
      ops.randomFill(random);
      const path = `${start}${[...random].map((byte) => LETTERS[byte % LETTERS.length]).join("")}`;
      const { directory, name, inode } = writable(path, "mkdtemp", false, `${start}XXXXXX`);
      if (inode !== undefined) throw failure("EEXIST", "mkdtemp", `${start}XXXXXX`);
      directory.set(name, new Directory(directory, 0o700));
      return encoded(path, options);
    }

    function readdir(path, options = undefined) {
      const start = pathOf(path);
      const inode = existing(start, "scandir");
      if (inode.kind !== "directory") throw failure("ENOTDIR", "scandir", path);
      const found = [];
      const pending = [{ inode, path: start, prefix: "" }];
      for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
        for (const name of at.inode.names().sort()) {
          const entry = at.inode.get(name);
          const shown = encoded(options?.withFileTypes ? name : at.prefix + name, options);
          found.push(options?.withFileTypes ? new Dirent(shown, at.path, entry.kind) : shown);
          if (options?.recursive === true && entry.kind === "directory") {
            pending.push({ inode: entry, path: `${at.path.replace(/\/$/, "")}/${name}`, prefix: `${at.prefix}${name}/` });
          }
        }
      }
      return found;
    }

    function rmdir(path) {
      const { directory, name, inode } = writable(pathOf(path), "rmdir");
      if (inode === undefined) throw failure("ENOENT", "rmdir", path);
      if (inode.kind !== "directory") throw failure("ENOTDIR", "rmdir", path);
      if (inode.names().length > 0) throw failure("ENOTEMPTY", "rmdir", path);
      directory.remove(name);
    }

    function rm(path, options = undefined) {
      let found;
      try {
        found = find(pathOf(path), "rm", false);
        if (found.inode === undefined) throw failure("ENOENT", "rm", path);
      } catch (/** @type {any} */ error) {
        if (options?.force === true && error.code === "ENOENT") return;
        throw error;
      }
      const { directory, name, inode } = found;
      if (inode.kind === "directory" && options?.recursive !== true) {
        throw systemError("ERR_FS_EISDIR", EISDIR, "rm", path, `Path is a directory: rm returned EISDIR (is a directory) ${path}`);
      }
      // The directory /tmp itself stays; its content is removed.
      if (inode.kind === "directory" && inode.parent === tree.root && !inode.isFixed) {
        for (const each of inode.names()) inode.remove(each);
      } else if (inode.isFixed || directory.isFixed) throw failure("EROFS", "rm", path);
      else directory.remove(name);
    }

    function rename(from, to) {
      const source = writable(pathOf(from, "oldPath"), "rename", false, from, to);
      if (source.inode === undefined) throw failure("ENOENT", "rename", from, to);
      const target = writable(pathOf(to, "newPath"), "rename", false, from, to);
      const { inode } = source;
      if (inode === target.inode) return;
      if (inode.kind === "directory") {
        for (let at = target.directory; ; at = at.parent) {
          if (at === inode) throw failure("EINVAL", "rename", from, to);
          if (at === at.parent) break;
        }
        if (target.inode !== undefined && target.inode.kind !== "directory") throw failure("ENOTDIR", "rename", from, to);
        if (target.inode?.names().length > 0) throw failure("ENOTEMPTY", "rename", from, to);
      } else if (target.inode?.kind === "directory") throw failure("EISDIR", "rename", from, to);
      if (target.inode !== undefined) target.directory.remove(target.name);
      source.directory.remove(source.name);
      inode.links++;
      target.directory.set(target.name, inode);
    }

    function copyFile(from, to, mode = 0) {
      needInteger(mode, "mode", 0, 7);
      const source = existing(pathOf(from, "src"), "copyfile", true, from, to);
      if (source.kind === "directory") throw failure("EISDIR", "copyfile", from, to);
      const { directory, name, inode } = writable(pathOf(to, "dest"), "copyfile", true, from, to);
      if (inode !== undefined && mode & COPYFILE_EXCL) throw failure("EEXIST", "copyfile", from, to);
      if (inode?.kind === "directory") throw failure("EISDIR", "copyfile", from, to);
      if (inode === source) return;
      const content = source.read(0, source.size);
      const copy = inode ?? new tree.File(source.mode | 0o200);
      copy.resize(0);
      copy.write(content, 0);
      if (inode === undefined) directory.set(name, copy);
    }

    // Copies a file or, with `recursive`, a directory.
    function cp(from, to, options = undefined) {
      const [origin, destination] = [pathOf(from, "src"), pathOf(to, "dest")];
      const start = existing(origin, "cp", options?.dereference === true, from, to);
      if (start.kind === "directory" && options?.recursive !== true) {
        throw systemError("ERR_FS_EISDIR", EISDIR, "cp", from,
          `Recursive option not enabled, cannot copy a directory: cp returned EISDIR (${from} is a directory) ${from}`);
      }
      const real = start.kind === "directory" ? `${tree.realPath(origin, "cp")}/` : null;
      if (real !== null && `${internal.use("path").resolve(destination)}/`.startsWith(real)) {
        throw systemError("ERR_FS_CP_EINVAL", EINVAL, "cp", to, `Cannot copy ${from} to a subdirectory of self ${to}`);
      }
      const pending = [[origin, destination]];
      for (let pair = pending.pop(); pair !== undefined; pair = pending.pop()) {
        const [source, target] = pair;
        if (options?.filter !== undefined && !options.filter(source, target)) continue;
        const inode = existing(source, "cp", options?.dereference === true, from, to);
        if (inode.kind === "directory") {
          mkdir(target, { recursive: true });
          for (const name of inode.names()) pending.push([`${source}/${name}`, `${target}/${name}`]);
        } else if (find(target, "cp", false, from, to).inode !== undefined && (options?.force === false || options?.errorOnExist)) {
          if (options?.errorOnExist) {
            throw systemError("ERR_FS_CP_EEXIST", EEXIST, "cp", target,
              `Target already exists: cp returned EEXIST (${target} already exists) ${target}`);
          }
        } else if (inode.kind === "link") {
          if (find(target, "cp", false, from, to).inode !== undefined) unlink(target);
          symlink(inode.target, target);
        } else copyFile(source, target);
      }
    }

    function unlink(path) {
      const { directory, name, inode } = writable(pathOf(path), "unlink");
      if (inode === undefined) throw failure("ENOENT", "unlink", path);
      if (inode.kind === "directory") throw failure("EISDIR", "unlink", path);
      directory.remove(name);
    }

    function symlink(target, path) {
      const text = pathOf(target, "target");
      if (text === "" || text.length > 4096) throw failure(text === "" ? "ENOENT" : "ENAMETOOLONG", "symlink", target, path);
      const { directory, name, inode } = writable(pathOf(path), "symlink", false, target, path);
      if (inode !== undefined) throw failure("EEXIST", "symlink", target, path);
      directory.set(name, new Link(text));
    }

    function link(from, to) {
      const inode = existing(pathOf(from, "existingPath"), "link", false, from, to);
      if (inode.kind === "directory") throw failure("EPERM", "link", from, to);
      if (inode.isFixed) throw failure("EXDEV", "link", from, to);
      const found = writable(pathOf(to, "newPath"), "link", false, from, to);
      if (found.inode !== undefined) throw failure("EEXIST", "link", from, to);
      inode.links++;
      found.directory.set(found.name, inode);
    }

    function readlink(path, options = undefined) {
      const inode = existing(pathOf(path), "readlink", false);
      if (inode.kind !== "link") throw failure("EINVAL", "readlink", path);
      return encoded(inode.target, options);
    }

    const calls = {
      access, copyFile, cp, link, mkdir, mkdtemp, readdir, readlink, rename, rm, rmdir, symlink, unlink,
      chmod(path, mode) {
        const inode = changeable(path, "chmod");
        inode.mode = modeOf(mode);
      },
      chown(path) {
        changeable(path, "chown");
      },
      lchown(path) {
        changeable(path, "lchown", false);
      },
      lstat: (path, options = undefined) => stats(path, options, "lstat", false),
      lutimes: (path, accessed, modified) => setTimes(changeable(path, "lutime", false), accessed, modified),
      realpath: (path, options = undefined) => encoded(tree.realPath(pathOf(path), "realpath"), options),
      stat: (path, options = undefined) => stats(path, options, "stat", true),
      // Only the isolate's memory bounds the files, and a Worker learns nothing about it.
      statfs: (path) => {
        existing(pathOf(path), "statfs");
        return { type: 0, bsize: 4096, blocks: 0, bfree: 0, bavail: 0, files: 0, ffree: 0 };
      },
      utimes: (path, accessed, modified) => setTimes(changeable(path, "utime"), accessed, modified),
    };
    return { calls, modeOf, setTimes };
  });
})
