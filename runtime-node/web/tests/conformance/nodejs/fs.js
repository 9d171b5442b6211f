// Checks of node:fs and node:fs/promises.
import fs, { Dirent, ReadStream, Stats, WriteStream, constants, createReadStream, createWriteStream } from "node:fs";
import promises, { open, readFile as read, writeFile as write } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { once } from "node:events";
import { promisify } from "node:util";
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:fs");

fs.writeFileSync("/tmp/start", "x");
const started = fs.readdirSync("/tmp");

const fails = (code, message, body) => equal(throws("Error", body, message).code, code);

check("files that were written at the start do not exist in a request", () => {
  equal([started, fs.readdirSync("/tmp")], [["start"], []]);
});

check("the root has the bundle, devices and a directory for files", () => {
  equal([fs.readdirSync("/"), fs.readdirSync("/dev")], [["bundle", "dev", "tmp"], ["full", "null", "random", "zero"]]);
  equal([fs.existsSync("/tmp"), fs.existsSync("/home"), fs.existsSync("/tmp/../bundle/./"), fs.existsSync("")], [true, false, true, false]);
});

check("the bundle has the Worker's modules, which cannot be changed", () => {
  equal(fs.readdirSync("/bundle"), ["assembler.js", "check.js", "key-fixtures.js", "nodejs", "stream-fixtures.js"]);
  const text = fs.readFileSync("/bundle/check.js", "utf8");
  equal([text.includes("export const check"), fs.statSync("/bundle/check.js").size], [true, Buffer.byteLength(text)]);
  equal([fs.readFileSync("/bundle/nodejs/fs.js").length > 0, fs.statSync("/bundle/check.js").mtimeMs], [true, 0]);
  fails("EROFS", "EROFS: read-only file system, open '/bundle/check.js'", () => fs.writeFileSync("/bundle/check.js", ""));
  fails("EROFS", "open '/bundle/new'", () => fs.writeFileSync("/bundle/new", ""));
  fails("EROFS", "unlink '/bundle/check.js'", () => fs.unlinkSync("/bundle/check.js"));
  fails("EROFS", "mkdir '/home'", () => fs.mkdirSync("/home"));
  fails("EROFS", "rename '/bundle/check.js' -> '/tmp/check.js'", () => fs.renameSync("/bundle/check.js", "/tmp/check.js"));
  fails("EROFS", "rm '/bundle'", () => fs.rmSync("/bundle", { recursive: true }));
  fails("EROFS", "chmod '/dev/null'", () => fs.chmodSync("/dev/null", 0));
  fails("EROFS", "access '/bundle/check.js'", () => fs.accessSync("/bundle/check.js", constants.W_OK));
  const fd = fs.openSync("/bundle/check.js");
  fails("EROFS", "fchmod", () => fs.fchmodSync(fd, 0o777));
  fs.closeSync(fd);
});

check("devices read as in Unix", () => {
  equal(fs.readFileSync("/dev/null").length, 0);
  fs.writeFileSync("/dev/null", "x");
  fails("ENOSPC", "no space left on device, write", () => fs.writeFileSync("/dev/full", "x"));
  const bytes = Buffer.alloc(100_000, 1);
  for (const [name, isZero] of [["zero", true], ["random", false]]) {
    const fd = fs.openSync(`/dev/${name}`);
    equal([fs.readSync(fd, bytes), bytes.every((byte) => byte === 0)], [100_000, isZero]);
    fs.closeSync(fd);
    equal(throws("RangeError", () => fs.readFileSync(`/dev/${name}`)).code, "ERR_FS_FILE_TOO_LARGE");
  }
  equal(fs.statSync("/dev/zero").isCharacterDevice(), true);
});

check("files are written, appended to, read and truncated", () => {
  fs.writeFileSync("/tmp/a", "one");
  fs.appendFileSync("/tmp/a", Buffer.from(" two"));
  equal([fs.readFileSync("/tmp/a", "utf8"), fs.readFileSync("/tmp/a").toString("hex"), fs.readFileSync("/tmp/a", { encoding: "base64" })],
    ["one two", "6f6e652074776f", "b25lIHR3bw=="]);
  fs.truncateSync("/tmp/a", 3);
  fs.truncateSync("/tmp/a", 5);
  equal([...fs.readFileSync("/tmp/a")], [111, 110, 101, 0, 0]);
  fs.writeFileSync("/tmp/a", "new", { flag: "r+" });
  equal(fs.readFileSync(new URL("file:///tmp/a"), "latin1"), "new\0\0");
  fails("EEXIST", "open '/tmp/a'", () => fs.writeFileSync("/tmp/a", "", { flag: "wx" }));
  fs.unlinkSync(Buffer.from("/tmp/a"));
  fails("ENOENT", "ENOENT: no such file or directory, open '/tmp/a'", () => fs.readFileSync("/tmp/a"));
  equal(throws("TypeError", () => fs.readFileSync("/tmp/\0")).code, "ERR_INVALID_ARG_VALUE");
  equal(throws("TypeError", () => fs.readFileSync({})).code, "ERR_INVALID_ARG_TYPE");
  equal(throws("TypeError", () => fs.openSync("/tmp/a", "rx")).code, "ERR_INVALID_ARG_VALUE");
});

check("errors have the number, the system call and the paths", () => {
  const { errno, syscall, path, dest } = throws("Error", () => fs.copyFileSync("/tmp/none", "/tmp/b"), "copyfile '/tmp/none' -> '/tmp/b'");
  equal([errno, syscall, path, dest], [-2, "copyfile", "/tmp/none", "/tmp/b"]);
  fs.writeFileSync("/tmp/file", "");
  fails("ENOTDIR", "ENOTDIR: not a directory, open '/tmp/file/x'", () => fs.readFileSync("/tmp/file/x"));
  fails("ENOTDIR", "scandir '/tmp/file'", () => fs.readdirSync("/tmp/file"));
  fails("EISDIR", "EISDIR: illegal operation on a directory, read", () => fs.readFileSync("/tmp"));
  fails("EISDIR", "open '/tmp'", () => fs.writeFileSync("/tmp", ""));
  fails("ENAMETOOLONG", "name too long, open", () => fs.readFileSync(`/tmp/${"a".repeat(256)}`));
  fails("EBADF", "EBADF: bad file descriptor, close", () => fs.closeSync(77));
  fails("EBADF", "EBADF: bad file descriptor, write", () => fs.writeFileSync(77, "x"));
  fs.rmSync("/tmp/file");
});

check("directories are made, listed and removed", () => {
  equal([fs.mkdirSync("/tmp/d"), fs.mkdirSync("/tmp/d/e/f", { recursive: true }), fs.mkdirSync("/tmp/d/e", { recursive: true })],
    [undefined, "/tmp/d/e", undefined]);
  fails("EEXIST", "EEXIST: file already exists, mkdir '/tmp/d'", () => fs.mkdirSync("/tmp/d"));
  fails("ENOENT", "mkdir '/tmp/x/y'", () => fs.mkdirSync("/tmp/x/y"));
  fs.writeFileSync("/tmp/d/a", "");
  fs.symlinkSync("a", "/tmp/d/l");
  equal(fs.readdirSync("/tmp/d").join(), "a,e,l");
  equal(fs.readdirSync("/tmp/d", { recursive: true }).sort().join(), "a,e,e/f,l");
  const entries = fs.readdirSync("/tmp/d", { withFileTypes: true });
  equal(entries.map((entry) => [entry instanceof Dirent, entry.name, entry.parentPath, entry.isFile(), entry.isDirectory(), entry.isSymbolicLink()].join()),
    ["true,a,/tmp/d,true,false,false", "true,e,/tmp/d,false,true,false", "true,l,/tmp/d,false,false,true"]);
  fails("ENOTEMPTY", "ENOTEMPTY: directory not empty, rmdir '/tmp/d'", () => fs.rmdirSync("/tmp/d"));
  equal(throws("SystemError", () => fs.rmSync("/tmp/d")).code, "ERR_FS_EISDIR");
  fs.rmdirSync("/tmp/d/e/f");
  fs.rmSync("/tmp/d", { recursive: true });
  fails("ENOENT", "rm '/tmp/d'", () => fs.rmSync("/tmp/d"));
  fs.rmSync("/tmp/d", { force: true });
  const made = fs.mkdtempSync("/tmp/x-");
  equal([/^\/tmp\/x-\w{6}$/.test(made), fs.statSync(made).isDirectory()], [true, true]);
  fs.rmSync("/tmp", { recursive: true });
  equal(fs.readdirSync("/tmp"), []);
});

check("stats describe a file", () => {
  fs.writeFileSync("/tmp/s", "12345", { mode: 0o600 });
  const stats = fs.statSync("/tmp/s");
  equal([stats instanceof Stats, stats.size, stats.isFile(), stats.isDirectory(), stats.mode.toString(8), stats.nlink, stats.mtime instanceof Date],
    [true, 5, true, false, "100600", 1, true]);
  equal(Math.abs(stats.mtimeMs - Date.now()) < 10_000, true);
  equal([fs.statSync("/tmp/s", { bigint: true }).size, fs.statSync("/tmp/none", { throwIfNoEntry: false })], [5n, undefined]);
  fs.utimesSync("/tmp/s", 1, new Date(2000));
  equal([fs.statSync("/tmp/s").atimeMs, fs.statSync("/tmp/s").mtime.getTime()], [1000, 2000]);
  fs.chmodSync("/tmp/s", "755");
  fs.accessSync("/tmp/s", constants.R_OK | constants.X_OK);
  fails("ENOENT", "stat '/tmp/none'", () => fs.statSync("/tmp/none"));
  fs.rmSync("/tmp/s");
});

check("files are copied, moved and linked", () => {
  fs.writeFileSync("/tmp/a", "content");
  fs.copyFileSync("/tmp/a", "/tmp/b");
  fails("EEXIST", "copyfile '/tmp/a' -> '/tmp/b'", () => fs.copyFileSync("/tmp/a", "/tmp/b", constants.COPYFILE_EXCL));
  fs.copyFileSync("/bundle/check.js", "/tmp/check.js");
  fs.appendFileSync("/tmp/check.js", "more");
  fs.renameSync("/tmp/a", "/tmp/b");
  fs.linkSync("/tmp/b", "/tmp/c");
  equal([fs.existsSync("/tmp/a"), fs.readFileSync("/tmp/c", "utf8"), fs.statSync("/tmp/c").nlink], [false, "content", 2]);
  fs.mkdirSync("/tmp/d/e", { recursive: true });
  fails("EINVAL", "rename '/tmp/d' -> '/tmp/d/e/f'", () => fs.renameSync("/tmp/d", "/tmp/d/e/f"));
  fails("ENOTDIR", "rename", () => fs.renameSync("/tmp/d", "/tmp/b"));
  fs.renameSync("/tmp/b", "/tmp/d/b");
  fs.cpSync("/tmp/d", "/tmp/copy", { recursive: true });
  equal(fs.readdirSync("/tmp/copy", { recursive: true }).sort().join(), "b,e");
  fs.cpSync(new URL("file:///tmp/d"), new URL("file:///tmp/copy-of-url"), { recursive: true });
  equal(fs.readdirSync("/tmp/copy-of-url"), fs.readdirSync("/tmp/copy"));
  throws("SystemError", () => fs.cpSync("/tmp/d", "/tmp/d/x", { recursive: true }), "subdirectory of self");
  fs.rmSync("/tmp", { recursive: true });
});

check("symbolic links are followed, up to a limit", () => {
  fs.mkdirSync("/tmp/d");
  fs.writeFileSync("/tmp/d/f", "found");
  fs.symlinkSync("d", "/tmp/l");
  fs.symlinkSync("/tmp/l/f", "/tmp/m");
  equal([fs.readFileSync("/tmp/m", "utf8"), fs.readlinkSync("/tmp/m"), fs.realpathSync("/tmp/m"), fs.realpathSync.native("/tmp/l/../m")],
    ["found", "/tmp/l/f", "/tmp/d/f", "/tmp/d/f"]);
  equal([fs.lstatSync("/tmp/l").isSymbolicLink(), fs.statSync("/tmp/l").isDirectory()], [true, true]);
  fs.symlinkSync("/tmp/y", "/tmp/x");
  fs.symlinkSync("/tmp/x", "/tmp/y");
  fails("ELOOP", "too many symbolic links encountered, open '/tmp/x'", () => fs.readFileSync("/tmp/x"));
  fs.rmSync("/tmp/x");
  fs.writeFileSync("/tmp/y", "through");
  equal(fs.readFileSync("/tmp/x", "utf8"), "through");
  fs.rmSync("/tmp", { recursive: true });
});

check("descriptors read and write at positions", () => {
  const fd = fs.openSync("/tmp/f", "w+");
  equal([fs.writeSync(fd, "abcdef"), fs.writeSync(fd, Buffer.from("XYZ"), 1, 2, 0), fs.writeSync(fd, "!", 8)], [6, 2, 1]);
  const bytes = Buffer.alloc(4);
  equal([fs.readSync(fd, bytes, 0, 4, 0), bytes.toString(), fs.readSync(fd, bytes, { position: 6 }), [...bytes]], [4, "YZcd", 3, [0, 0, 33, 100]]);
  equal([fs.fstatSync(fd).size, fs.readvSync(fd, [Buffer.alloc(2), Buffer.alloc(100)], 0)], [9, 9]);
  fs.ftruncateSync(fd, 2);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
  equal(fs.readFileSync("/tmp/f", "utf8"), "YZ");
  fails("EBADF", "write", () => fs.writeSync(fs.openSync("/tmp/f", "r"), "x"));
  const appending = fs.openSync("/tmp/f", "a");
  fs.writeSync(appending, "1", 0);
  fs.writeSync(appending, "2", 0);
  equal(fs.readFileSync("/tmp/f", "utf8"), "YZ12");
  throws("RangeError", () => fs.readSync(appending, bytes, 5), "offset");
  fs.rmSync("/tmp/f");
});

check("descriptors run out", () => {
  const open = [];
  fails("EMFILE", "too many open files, open '/dev/null'", () => { for (;;) open.push(fs.openSync("/dev/null")); });
  open.forEach((fd) => fs.closeSync(fd));
});

check("a file has at most one GiB", () => {
  const fd = fs.openSync("/tmp/large", "w");
  fails("EFBIG", "file too large, write", () => fs.writeSync(fd, "x", 2 ** 40));
  fs.closeSync(fd);
  fs.rmSync("/tmp/large");
});

check("the descriptors of standard output write to the log", () => {
  logs("INFO", "out", () => fs.writeSync(1, "out\n"));
  logs("ERROR", "err or", () => { fs.writeSync(2, "err "); fs.writeSync(2, Buffer.from("or\n")); });
});

check("an unfinished line is logged at the end of its tick", async () => {
  logs("INFO", "whole", () => fs.writeSync(1, "whole\npart"));
  logs("INFO", "part ends", () => fs.writeSync(1, " ends"));
  await null;
  logs("INFO", "next", () => fs.writeSync(1, "next\n"));
});

check("callbacks get results in a later tick", async () => {
  const seen = [];
  await new Promise((resolve) => {
    fs.writeFile("/tmp/c", "x", (error) => {
      seen.push(error);
      fs.readFile("/tmp/c", "utf8", (error, text) => {
        seen.push(error, text);
        fs.readFile("/tmp/none", (error) => { seen.push(error.code); resolve(); });
      });
    });
    seen.push("sync");
  });
  equal(seen, ["sync", null, null, "x", "ENOENT"]);
  const fd = await promisify(fs.open)("/tmp/c", "r");
  const [count, buffer] = await new Promise((resolve) => fs.read(fd, Buffer.alloc(1), 0, 1, 0, (error, ...results) => resolve(results)));
  equal([count, buffer.toString()], [1, "x"]);
  equal([await new Promise((resolve) => fs.exists("/tmp/c", resolve)), await promisify(fs.exists)("/tmp/none")], [true, false]);
  throws("TypeError", () => fs.readFile("/tmp/c"));
  throws("TypeError", () => fs.readFile({}, () => {}));
  fs.rmSync("/tmp/c");
});

check("functions of the promises module have the same results", async () => {
  equal(promises === fs.promises, true);
  await write("/tmp/p", "text");
  equal(await read("/tmp/p", { encoding: "utf8" }), "text");
  equal((await rejects("Error", read("/tmp/none"), "ENOENT: no such file or directory, open '/tmp/none'")).code, "ENOENT");
  await write("/tmp/p", Readable.from(["a", "b"]));
  equal([await read("/tmp/p", "utf8"), (await promises.stat("/tmp/p")).size, await promises.readdir("/tmp")], ["ab", 2, ["p"]]);
  const names = [];
  for await (const entry of await promises.opendir("/tmp")) names.push(entry.name);
  equal(names, ["p"]);
  await rejects("Error", promises.access("/tmp/none"));
});

check("a file handle reads and writes until it is closed", async () => {
  const file = await open("/tmp/h", "w+");
  equal([typeof file.fd, (await file.write("hello")).bytesWritten, (await file.stat()).size], ["number", 5, 5]);
  const { bytesRead, buffer } = await file.read(Buffer.alloc(10), 0, 10, 0);
  equal([bytesRead, buffer.subarray(0, 5).toString()], [5, "hello"]);
  await file.appendFile(" world");
  await file.close();
  await rejects("Error", file.stat(), "file closed");
  equal(await read("/tmp/h", "utf8"), "hello world");
});

check("a stream of a file handle closes the handle, and ends with it", async () => {
  await write("/tmp/h", "one\ntwo\n");
  for (const use of [
    async (file) => equal((await file.createReadStream().toArray()).join(), "one\ntwo\n"),
    async (file) => { for await (const line of file.readLines()) equal(line.length, 3); },
    async (file) => void file.createWriteStream().end("three"),
  ]) {
    const file = await open("/tmp/h", "r+");
    await Promise.all([once(file, "close"), use(file)]);
    const fd = fs.openSync("/tmp/h");
    await file.close();
    fs.closeSync(fd);
  }
  const file = await open("/tmp/h");
  const kept = file.createReadStream({ autoClose: false });
  equal([(await kept.toArray()).length, (await file.stat()).size], [1, 8]);
  const stream = file.createReadStream();
  await file.close();
  equal(stream.destroyed, true);
});

check("a refused copy is an error for the callback", async () => {
  fs.mkdirSync("/tmp/from");
  fs.writeFileSync("/tmp/file", "");
  const seen = [];
  for (const [from, to, options] of [
    ["/tmp/from", "/tmp/to", {}], ["/tmp/from", "/tmp/from/to", { recursive: true }], ["/tmp/file", "/tmp/file", { errorOnExist: true }],
  ]) {
    const { code, errno, syscall, path } = await new Promise((resolve) => fs.cp(from, to, options, resolve));
    seen.push([code, errno, syscall, path].join());
  }
  equal(seen, ["ERR_FS_EISDIR,21,cp,/tmp/from", "ERR_FS_CP_EINVAL,22,cp,/tmp/from/to", "ERR_FS_CP_EEXIST,17,cp,/tmp/file"]);
});

check("streams read and write files", async () => {
  const to = createWriteStream("/tmp/w");
  to.write("one ");
  to.end("two");
  await once(to, "close");
  equal([to instanceof WriteStream, to.bytesWritten, to.path, fs.readFileSync("/tmp/w", "utf8")], [true, 7, "/tmp/w", "one two"]);
  let text = "";
  for await (const chunk of createReadStream("/tmp/w", { encoding: "utf8", start: 1, end: 4, highWaterMark: 3 })) text += `${chunk},`;
  equal(text, "ne ,t,");
  fs.writeFileSync("/tmp/large", "x".repeat(200_000));
  await pipeline(createReadStream("/tmp/large"), createWriteStream("/tmp/copy"));
  equal([fs.statSync("/tmp/copy").size, createReadStream("/tmp/copy") instanceof ReadStream], [200_000, true]);
  const [error] = await once(createReadStream("/tmp/none"), "error");
  equal(error.code, "ENOENT");
  await pipeline(createReadStream("/tmp/copy", { end: 2 }), createWriteStream("/tmp/w", { flags: "a" }));
  equal(fs.readFileSync("/tmp/w", "utf8"), "one twoxxx");
});

check("watching and patterns are refused", () => {
  for (const call of [() => fs.watch("/tmp"), () => fs.globSync("*")]) {
    equal(throws("Error", call, "is not available in a Worker").code, "ERR_METHOD_NOT_IMPLEMENTED");
  }
});
