// Checks of node:module, node:timers, node:readline and node:punycode, and of the modules of
// Node.js without a use in Workers.
import assert from "node:assert";
import childProcess, { spawn } from "node:child_process";
import cluster from "node:cluster";
import constants from "node:constants";
import { Socket, createSocket } from "node:dgram";
import domain from "node:domain";
import http2 from "node:http2";
import inspector, { Session } from "node:inspector";
import module_, { builtinModules, createRequire, isBuiltin } from "node:module";
import { PerformanceObserver, monitorEventLoopDelay } from "node:perf_hooks";
import punycode from "node:punycode";
import readline, { createInterface } from "node:readline";
import { createInterface as asking } from "node:readline/promises";
import repl from "node:repl";
import sys from "node:sys";
import test, { describe } from "node:test";
import timers from "node:timers";
import { getEnabledCategories } from "node:trace_events";
import tty from "node:tty";
import util from "node:util";
import { getHeapStatistics, serialize } from "node:v8";
import vm from "node:vm";
import { WASI } from "node:wasi";
import { MessageChannel as Channel, Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { PassThrough, Readable } from "node:stream";
import { once } from "node:events";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const refuses = (body, part) => equal(throws("Error", body, part).code, "ERR_METHOD_NOT_IMPLEMENTED");

about("node:module");

check("createRequire finds the modules of Node.js and no others", () => {
  const require = createRequire("file:///worker.js");
  equal([require("node:assert") === assert, require("util") === util, require("fs/promises") === require("fs").promises], [true, true, true]);
  equal(throws("Error", () => require("./other"), "Cannot find module './other'").code, "MODULE_NOT_FOUND");
  equal(throws("Error", () => require("cloudflare:workers")).code, "MODULE_NOT_FOUND");
  equal([require.resolve("fs"), throws("TypeError", () => createRequire(1)).code], ["fs", "ERR_INVALID_ARG_TYPE"]);
});

check("isBuiltin and builtinModules name the modules", () => {
  equal([isBuiltin("fs"), isBuiltin("node:fs/promises"), isBuiltin("wss"), isBuiltin("node:test"), isBuiltin("test"), isBuiltin("cloudflare:workers")],
    [true, true, false, true, false, false]);
  equal([builtinModules.includes("http"), builtinModules.includes("test"), module_.Module === module_], [true, false, true]);
  for (const name of builtinModules) equal([name, typeof process.getBuiltinModule(name)].includes("undefined"), false);
});

about("node:timers");

check("timers are objects that convert to numbers", async () => {
  equal([setTimeout === timers.setTimeout, setInterval === timers.setInterval, clearTimeout === timers.clearTimeout], [true, true, true]);
  const seen = [];
  const timer = setTimeout((a, b) => seen.push(a, b), 1, "x", "y");
  equal([typeof timer, typeof +timer, timer.unref() === timer, timer.ref() === timer, timer.hasRef()], ["object", "number", true, true, false]);
  clearTimeout(setTimeout(() => seen.push("cleared"), 0));
  clearTimeout(+setTimeout(() => seen.push("cleared by number"), 0));
  setTimeout(() => seen.push("closed"), 0).close();
  const repeated = setInterval(() => seen.push("z"), 1);
  while (!seen.includes("z") || !seen.includes("y")) await new Promise((resolve) => setTimeout(resolve, 1));
  clearInterval(repeated);
  equal(seen.filter((each) => each !== "z"), ["x", "y"]);
  equal(throws("TypeError", () => setTimeout("code")).code, "ERR_INVALID_ARG_TYPE");
});

check("refresh starts a timer again", async () => {
  let count = 0;
  const timer = setTimeout(() => count++, 1);
  while (count === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  equal(timer.refresh() === timer, true);
  while (count === 1) await new Promise((resolve) => setTimeout(resolve, 1));
  equal(count, 2);
});

about("node:readline");

check("an interface emits the lines of a stream", async () => {
  const lines = [];
  const input = new PassThrough();
  const reader = createInterface({ input });
  reader.on("line", (line) => lines.push(line));
  input.write("one\ntw");
  input.write("o\r");
  input.write("\nthree\r\n\n");
  input.write(Buffer.from([0xc3]));
  input.end(Buffer.from([0xa4]));
  await once(reader, "close");
  equal([lines, reader.closed], [["one", "two", "three", "", "ä"], true]);
  equal(throws("Error", () => reader.question("?", () => {})).code, "ERR_USE_AFTER_CLOSE");
});

check("an interface is an async iterable of lines", async () => {
  const lines = [];
  for await (const line of createInterface({ input: Readable.from(["a\nb", "\nc"]) })) lines.push(line);
  equal(lines, ["a", "b", "c"]);
  for await (const line of createInterface({ input: Readable.from(["a\nb\n"]) })) { equal(line, "a"); break; }
});

check("a question is answered by the next line", async () => {
  const input = new PassThrough(), output = new PassThrough();
  const reader = asking({ input, output });
  equal(reader instanceof readline.promises.Interface, true);
  const answer = reader.question("name? ");
  input.write("Ada\n");
  equal([await answer, output.read().toString()], ["Ada", "name? "]);
  reader.setPrompt("$ ");
  reader.prompt();
  equal([reader.getPrompt(), output.read().toString()], ["$ ", "$ "]);
  readline.cursorTo(output, 1, 2);
  equal(output.read().toString(), "\x1b[3;2H");
  reader.close();
});

about("node:punycode");

check("labels are encoded and decoded as in RFC 3492", () => {
  const samples = [
    ["bücher", "bcher-kva"], ["ليهمابتكلموشعربي؟", "egbpdaj6bu4bxfgehfvwxn"], ["他们为什么不说中文", "ihqwcrb4cv8a8dqg056pqjye"],
    ["Pročprostěnemluvíčesky", "Proprostnemluvesky-uyb24dma41a"], ["3年B組金八先生", "3B-ww4c5e180e575a65lsy2b"], ["💩", "ls8h"], ["abc", "abc-"],
  ];
  for (const [text, encoded] of samples) equal([punycode.encode(text), punycode.decode(encoded)], [encoded, text]);
  equal([punycode.toASCII("a@mañana.example"), punycode.toUnicode("xn--maana-pta.com"), punycode.toASCII("a。b")], ["a@xn--maana-pta.example", "mañana.com", "a.b"]);
  equal(punycode.ucs2.encode(punycode.ucs2.decode("a💩")), "a💩");
  throws("RangeError", () => punycode.decode("\x80"));
  throws("RangeError", () => punycode.decode("9999999999"));
});

about("modules of Node.js without a use in Workers");

check("functions and classes throw an error with the reason", () => {
  refuses(() => spawn("ls"), "child_process.spawn is not available in a Worker: there are no other processes");
  refuses(() => cluster.fork());
  refuses(() => createSocket("udp4"));
  refuses(() => new Socket());
  refuses(() => http2.connect("https://a.test"));
  refuses(() => new Session());
  refuses(() => repl.start());
  refuses(() => test("name", () => {}));
  refuses(() => describe("name"));
  refuses(() => serialize({}));
  refuses(() => new WASI());
  refuses(() => new Worker("file.js"), "a Worker has one thread");
  refuses(() => vm.createContext({}));
  refuses(() => new tty.ReadStream(0));
  equal([childProcess.ChildProcess.name, class extends childProcess.ChildProcess {}.name], ["ChildProcess", ""]);
});

check("values describe a single thread on no particular machine", () => {
  equal([isMainThread, parentPort, workerData, Channel === MessageChannel], [true, null, null, true]);
  equal([cluster.isPrimary, cluster.isWorker, inspector.url(), getEnabledCategories()], [true, false, undefined, undefined]);
  equal([sys === util, constants.O_RDONLY, http2.constants.HTTP2_HEADER_PATH, getHeapStatistics().used_heap_size], [true, 0, ":path", 0]);
  equal([PerformanceObserver.supportedEntryTypes, monitorEventLoopDelay().enable()], [[], false]);
});

check("vm runs code in the Worker's own realm", () => {
  globalThis.known = 2;
  equal([vm.runInThisContext("known + 1"), new vm.Script("known * 5").runInThisContext(), vm.compileFunction("return a + 1", ["a"])(1)], [3, 10, 2]);
  equal(vm.isContext({}), false);
});

check("a domain reports exceptions to its listeners", async () => {
  const own = domain.create();
  const caught = once(own, "error");
  own.run(() => { throw new TypeError("thrown"); });
  equal((await caught)[0].message, "thrown");
  equal(own.bind((a) => a + 1)(1), 2);
});
