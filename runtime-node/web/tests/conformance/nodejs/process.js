// Checks of node:os, node:process, node:timers/promises and node:diagnostics_channel.
import os from "node:os";
import * as perf from "node:perf_hooks";
import process, { env, nextTick } from "node:process";
import tty from "node:tty";
import timers, { setImmediate as later } from "node:timers";
import { scheduler, setImmediate as soon, setInterval as every, setTimeout as after } from "node:timers/promises";
import diagnostics, { channel, tracingChannel } from "node:diagnostics_channel";
import nodeConsole from "node:console";
import { AsyncLocalStorage } from "node:async_hooks";
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:os");

check("os and tty reveal nothing about the machine", () => {
  equal([os.EOL, os.platform(), os.type(), os.cpus(), os.availableParallelism(), tty.isatty(1)], ["\n", "linux", "Linux", [], 1, false]);
  equal([perf.performance === performance, PerformanceEntry === perf.PerformanceEntry], [true, true]);
});

about("node:process");

check("process describes a generic Node.js process", () => {
  equal([globalThis.process === process, globalThis.global === globalThis, nodeConsole === console], [true, true, true]);
  equal([process.platform, process.cwd(), process.argv.length, typeof process.pid], ["linux", "/", 1, "number"]);
  equal([/^v\d+\.\d+\.\d+$/.test(process.version), process.versions.node], [true, process.version.slice(1)]);
  equal([env === process.env, Object.keys(env), env.NOTHING], [true, [], undefined]);
  equal([Object.prototype.toString.call(process), process.umask(), process.memoryUsage().rss], ["[object process]", 18, 0]);
  env.ADDED = "x";
  equal(process.env.ADDED, "x");
  delete env.ADDED;
});

check("process.exit throws an error with the reason", () => {
  equal(throws("Error", () => process.exit(1), "Response").code, "ERR_METHOD_NOT_IMPLEMENTED");
  throws("Error", () => process.kill(1));
  throws("Error", () => process.abort());
});

check("process measures time, and emits events", () => {
  const [seconds, nanoseconds] = process.hrtime();
  equal([Number.isInteger(seconds), Number.isInteger(nanoseconds), typeof process.hrtime.bigint()], [true, true, "bigint"]);
  const [more] = process.hrtime([seconds - 1, nanoseconds]);
  equal(more >= 1, true);
  equal(process.uptime() >= 0, true);
  let seen;
  process.once("mine", (value) => (seen = value));
  equal([process.emit("mine", 1), seen], [true, 1]);
});

check("process writes to the log", () => {
  logs("INFO", "out", () => process.stdout.write("out\n"));
  logs("ERROR", "err", () => process.stderr.write(Buffer.from("err")));
  logs("WARN", "Careful: it is", () => process.emitWarning("it is", "Careful"));
});

check("nextTick runs after the current code and before timers", async () => {
  const seen = [];
  await new Promise((resolve) => {
    setTimeout(() => { seen.push("timeout"); resolve(); });
    nextTick((a, b) => seen.push(`tick ${a} ${b}`), 1, 2);
    seen.push("now");
  });
  equal(seen, ["now", "tick 1 2", "timeout"]);
  throws("TypeError", () => nextTick(1));
});

check("immediates run in a later turn unless they are cleared", async () => {
  equal([later === globalThis.setImmediate, timers.setTimeout === setTimeout], [true, true]);
  const seen = [];
  const cleared = setImmediate(() => seen.push("cleared"));
  clearImmediate(cleared);
  clearImmediate(undefined);
  await new Promise((resolve) => setImmediate((value) => { seen.push(value); resolve(); }, "ran"));
  equal(seen, ["ran"]);
});

check("promises of timers resolve with the value, or reject if they are aborted", async () => {
  equal([await after(1, "x"), await soon("y"), await scheduler.wait(1)], ["x", "y", undefined]);
  const controller = new AbortController();
  const waits = after(10_000, null, { signal: controller.signal });
  controller.abort("why");
  const error = await rejects("AbortError", waits);
  equal([error.code, error.cause], ["ABORT_ERR", "why"]);
  await rejects("AbortError", soon(1, { signal: AbortSignal.abort() }));
  let count = 0;
  for await (const value of every(1, "z")) {
    equal(value, "z");
    if (++count === 3) break;
  }
});

check("channels notify their subscribers", () => {
  const seen = [];
  const subscriber = (message, name) => seen.push([name, message]);
  equal([channel("c") === channel("c"), channel("c").hasSubscribers, diagnostics.hasSubscribers("c")], [true, false, false]);
  diagnostics.subscribe("c", subscriber);
  channel("c").publish(1);
  equal([diagnostics.unsubscribe("c", subscriber), diagnostics.unsubscribe("c", subscriber)], [true, false]);
  channel("c").publish(2);
  equal(seen, [["c", 1]]);
});

check("a channel sets bound stores", () => {
  const storage = new AsyncLocalStorage();
  channel("s").bindStore(storage, (context) => context.id);
  equal(channel("s").runStores({ id: 7 }, (a) => [storage.getStore(), a], undefined, 1), [7, 1]);
  channel("s").unbindStore(storage);
});

check("a tracing channel reports the outcome of a function", async () => {
  const traced = tracingChannel("t");
  const seen = [];
  traced.subscribe(Object.fromEntries(["start", "end", "asyncStart", "asyncEnd", "error"].map((name) => [name, () => seen.push(name)])));
  equal(traced.traceSync((a) => a + 1, {}, undefined, 1), 2);
  throws("TypeError", () => traced.traceSync(() => { throw new TypeError(); }));
  equal(await traced.tracePromise(async () => 3), 3);
  equal(seen, ["start", "end", "start", "error", "end", "start", "end", "asyncStart", "asyncEnd"]);
});
