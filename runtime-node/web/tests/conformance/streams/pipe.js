// Checks of pipeTo and pipeThrough (Streams §4.2.4, ReadableStreamPipeTo).
import { about, check, equal, rejects, throws } from "../check.js";
import { error1, error2, later, pending } from "../stream-fixtures.js";
export { default } from "../check.js";

// The following two functions return a stream, its controller, and the recorded calls of its
// source or sink.
function source(methods = {}, strategy = undefined) {
  const events = [];
  let controller;
  const stream = new ReadableStream({
    start(c) {
      controller = c;
      return methods.start?.(c);
    },
    pull: methods.pull && ((c) => methods.pull(c)),
    cancel(reason) {
      events.push(["cancel", reason]);
      return methods.cancel?.(reason);
    },
  }, strategy);
  return { stream, events, controller };
}
function sink(methods = {}, strategy = undefined) {
  const events = [];
  let controller;
  const stream = new WritableStream({
    start: (c) => void (controller = c),
    write(chunk) {
      events.push(["write", chunk]);
      return methods.write?.(chunk);
    },
    close() {
      events.push("close");
      return methods.close?.();
    },
    abort(reason) {
      events.push(["abort", reason]);
      return methods.abort?.(reason);
    },
  }, strategy);
  return { stream, events, controller };
}
const of = (...chunks) => ReadableStream.from(chunks);

about("ReadableStream");

check("all chunks are written, and then both streams are closed and unlocked", async () => {
  const from = of("a", "b", "c");
  const to = sink();
  const done = from.pipeTo(to.stream);
  equal([from.locked, to.stream.locked], [true, true]);
  equal(await done, undefined);
  equal([from.locked, to.stream.locked], [false, false]);
  equal(to.events, [["write", "a"], ["write", "b"], ["write", "c"], "close"]);
});

check("pipeTo rejects invalid arguments", async () => {
  const from = new ReadableStream();
  for (const bad of [undefined, null, {}, new ReadableStream(), 1]) await rejects("TypeError", from.pipeTo(bad));
  await rejects("TypeError", from.pipeTo());
  await rejects("TypeError", from.pipeTo(new WritableStream(), 1));
  for (const signal of [null, {}, true]) await rejects("TypeError", from.pipeTo(new WritableStream(), { signal }));
  equal(from.locked, false);
  const locked = new WritableStream();
  locked.getWriter();
  await rejects("TypeError", from.pipeTo(locked));
  from.getReader();
  await rejects("TypeError", from.pipeTo(new WritableStream()));
  const failing = { get preventAbort() { throw error1; } };
  await rejects("one", new ReadableStream().pipeTo(new WritableStream(), failing));
});

check("pipeThrough throws for invalid arguments, and returns the readable side", async () => {
  const from = new ReadableStream();
  const { readable, writable } = new TransformStream();
  for (const bad of [undefined, null, {}, 1, { readable }, { writable }, { readable: writable, writable: readable }]) {
    throws("TypeError", () => from.pipeThrough(bad));
  }
  throws("TypeError", () => from.pipeThrough());
  throws("TypeError", () => from.pipeThrough({ readable, writable }, { signal: 1 }));
  equal(from.pipeThrough({ readable, writable }) === readable, true);
  throws("TypeError", () => from.pipeThrough(new TransformStream()));
  const order = [];
  const pair = { get readable() { order.push("readable"); return readable; }, get writable() { order.push("writable"); return writable; } };
  const options = new Proxy({}, { get: (_, key) => void order.push(key) });
  throws("TypeError", () => of().pipeThrough(pair, options));
  equal(order, ["readable", "writable", "preventAbort", "preventCancel", "preventClose", "signal"]);
});

check("a failed pipeThrough causes no unhandled rejection", async () => {
  const out = new ReadableStream({ start: (c) => c.error(error1) }).pipeThrough(new TransformStream());
  await rejects("one", out.getReader().read());
});

check("chunks are read only while the sink has room", async () => {
  const write = Promise.withResolvers();
  let pulls = 0;
  const from = new ReadableStream({ pull: (c) => (pulls === 5 ? c.close() : c.enqueue(pulls++)) }, { highWaterMark: 0 });
  const to = sink({ write: () => write.promise }, { highWaterMark: 2 });
  from.pipeTo(to.stream).catch(() => {});
  await later();
  equal([pulls, to.events], [2, [["write", 0]]]);
  write.resolve();
  await later();
  equal([pulls, to.events.length], [5, 6]);
  const none = sink({}, { highWaterMark: 0 });
  const idle = of(1);
  idle.pipeTo(none.stream);
  await later();
  equal(none.events, []);
});

check("enqueueing does not write immediately", async () => {
  const from = source();
  const to = sink();
  from.stream.pipeTo(to.stream);
  await later();
  from.controller.enqueue("a");
  equal(to.events, []);
  await later();
  equal(to.events, [["write", "a"]]);
});

check("an error of the source aborts the sink after the chunks that were read have been written", async () => {
  const write = Promise.withResolvers();
  const from = source();
  const to = sink({ write: () => write.promise }, { highWaterMark: 3 });
  from.controller.enqueue("a");
  from.controller.enqueue("b");
  const done = from.stream.pipeTo(to.stream);
  await later();
  from.controller.error(error1);
  await later();
  equal(to.events, [["write", "a"]]);
  write.resolve();
  await rejects("one", done);
  equal(to.events, [["write", "a"], ["write", "b"], ["abort", error1]]);
  equal([from.stream.locked, to.stream.locked], [false, false]);
});

check("an error of the source does not affect the sink with preventAbort", async () => {
  const to = sink();
  await rejects("one", new ReadableStream({ start: (c) => c.error(error1) }).pipeTo(to.stream, { preventAbort: true }));
  equal(to.events, []);
  await to.stream.getWriter().write("still");
});

check("the pipe rejects with the error of a failed abort", async () => {
  const to = sink({ abort: () => { throw error2; } });
  await rejects("two", new ReadableStream({ start: (c) => c.error(error1) }).pipeTo(to.stream));
});

check("an error of the sink cancels the source", async () => {
  for (const methods of [{ write: () => { throw error1; } }, { write: () => Promise.reject(error1) }]) {
    const from = source();
    from.controller.enqueue("a");
    const to = sink(methods);
    await rejects("one", from.stream.pipeTo(to.stream));
    equal([from.events, from.stream.locked], [[["cancel", error1]], false]);
  }
  const idle = source();
  const to = sink();
  const done = idle.stream.pipeTo(to.stream);
  await later();
  to.controller.error(error1);
  await rejects("one", done);
  equal(idle.events, [["cancel", error1]]);
});

check("an error of the sink does not affect the source with preventCancel", async () => {
  const from = source();
  from.controller.enqueue("a");
  from.controller.enqueue("b");
  await rejects("one", from.stream.pipeTo(sink({ write: () => { throw error1; } }).stream, { preventCancel: true }));
  equal([from.events, (await from.stream.getReader().read()).value], [[], "b"]);
});

check("the pipe rejects with the error of a failed cancel", async () => {
  const from = source({ cancel: () => { throw error2; } });
  const to = new WritableStream({ start: (c) => c.error(error1) });
  await rejects("two", from.stream.pipeTo(to));
});

check("the end of the source closes the sink, unless preventClose is set", async () => {
  const to = sink();
  await of("a").pipeTo(to.stream, { preventClose: true });
  equal(to.events, [["write", "a"]]);
  await of("b").pipeTo(to.stream);
  equal(to.events, [["write", "a"], ["write", "b"], "close"]);
});

check("the pipe rejects with the error of a failed close", async () => {
  await rejects("one", of("a").pipeTo(sink({ close: () => Promise.reject(error1) }).stream));
});

check("a sink that is closed, or about to be, cancels the source", async () => {
  for (const wait of [true, false]) {
    const from = source();
    from.controller.enqueue("a");
    const to = sink();
    const closed = to.stream.close();
    if (wait) await closed;
    const failure = await rejects("TypeError", from.stream.pipeTo(to.stream));
    equal([from.events[0][0], from.events[0][1] === failure, to.events], ["cancel", true, ["close"]]);
    const kept = source();
    await rejects("TypeError", kept.stream.pipeTo(to.stream, { preventCancel: true }));
    equal(kept.events, []);
  }
});

check("the first applicable end, in the order of the standard, determines the outcome", async () => {
  const failedSource = () => new ReadableStream({ start: (c) => c.error(error1) });
  const failedSink = () => new WritableStream({ start: (c) => c.error(error2) });
  const failed = failedSink();
  await later();
  await rejects("one", failedSource().pipeTo(failed));
  // While the sink has not failed completely, an abort is rejected with the sink's own reason.
  await rejects("two", failedSource().pipeTo(failedSink()));
  await rejects("two", of().pipeTo(failedSink()));
  const closed = new WritableStream();
  await closed.close();
  await rejects("one", failedSource().pipeTo(closed));
  const empty = new ReadableStream({ start: (c) => c.close() });
  equal(await empty.pipeTo(closed), undefined);
});

check("a signal that is already aborted ends the pipe before it begins", async () => {
  const from = source();
  from.controller.enqueue("a");
  const to = sink();
  await rejects("one", from.stream.pipeTo(to.stream, { signal: AbortSignal.abort(error1) }));
  equal([from.events, to.events], [[["cancel", error1]], [["abort", error1]]]);
  equal([from.stream.locked, to.stream.locked], [false, false]);
});

check("a signal ends the pipe after the chunks that were read have been written", async () => {
  const write = Promise.withResolvers();
  const from = source();
  from.controller.enqueue("a");
  const to = sink({ write: () => write.promise });
  const control = new AbortController();
  const done = from.stream.pipeTo(to.stream, { signal: control.signal });
  await later();
  control.abort(error1);
  await later();
  equal([from.events, to.events, await pending(done)], [[], [["write", "a"]], true]);
  write.resolve();
  await rejects("one", done);
  equal([from.events, to.events], [[["cancel", error1]], [["write", "a"], ["abort", error1]]]);
});

check("a signal respects preventAbort and preventCancel", async () => {
  const signal = AbortSignal.abort(error1);
  for (const [options, canceled, aborted] of [
    [{ preventCancel: true }, 0, 1], [{ preventAbort: true }, 1, 0], [{ preventCancel: true, preventAbort: true }, 0, 0],
  ]) {
    const from = source(), to = sink();
    await rejects("one", from.stream.pipeTo(to.stream, { signal, ...options }));
    equal([from.events.length, to.events.length], [canceled, aborted]);
  }
});

check("a signal waits for cancel and abort, and the pipe rejects with the first error", async () => {
  const abort = Promise.withResolvers(), cancel = Promise.withResolvers();
  const from = source({ cancel: () => cancel.promise }), to = sink({ abort: () => abort.promise });
  const control = new AbortController();
  const done = from.stream.pipeTo(to.stream, { signal: control.signal });
  await later();
  control.abort(error1);
  abort.resolve();
  equal(await pending(done), true);
  cancel.reject(error2);
  await rejects("two", done);
  const reason = await rejects("AbortError", source().stream.pipeTo(sink().stream, { signal: AbortSignal.abort() }));
  equal(reason instanceof DOMException, true);
});

check("a signal has no effect once the pipe has ended", async () => {
  const control = new AbortController();
  const from = of("a"), to = sink();
  await from.pipeTo(to.stream, { signal: control.signal, preventClose: true });
  control.abort(error1);
  await later();
  equal(to.events, [["write", "a"]]);
});

check("a chunk that is enqueued just before the signal is still written", async () => {
  const from = source();
  const to = sink();
  const control = new AbortController();
  const done = from.stream.pipeTo(to.stream, { signal: control.signal, preventAbort: true, preventCancel: true });
  await later();
  from.controller.enqueue("a");
  control.abort(error1);
  await rejects("one", done);
  const rest = await Promise.race([from.stream.getReader().read(), later().then(() => "none")]);
  equal([to.events, rest], [[["write", "a"]], "none"]);
});

check("a byte stream is piped like any other stream", async () => {
  const from = new ReadableStream({
    type: "bytes",
    start(c) {
      c.enqueue(new Uint8Array([1, 2]));
      c.enqueue(new Uint8Array([3]));
      c.close();
    },
  });
  const to = sink();
  await from.pipeTo(to.stream);
  equal(to.events, [["write", new Uint8Array([1, 2])], ["write", new Uint8Array([3])], "close"]);
});

check("a pipe calls neither Promise.prototype.then nor Object.prototype.then", async () => {
  const { then } = Promise.prototype;
  let seen = 0;
  Object.defineProperty(Object.prototype, "then", {
    configurable: true,
    get() {
      if (this !== null && typeof this === "object" && "done" in this) seen++;
      return undefined;
    },
  });
  Promise.prototype.then = function (...args) {
    seen++;
    return Reflect.apply(then, this, args);
  };
  const written = [];
  let done;
  try {
    done = new ReadableStream({ start: (c) => (c.enqueue("a"), c.close()) })
      .pipeTo(new WritableStream({ write: (chunk) => void written.push(chunk) }));
    await new Promise((resolve) => setTimeout(resolve, 0));
  } finally {
    delete Object.prototype.then;
    Promise.prototype.then = then;
  }
  await done;
  equal([written, seen], [["a"], 0]);
});

check("ten thousand chunks go through, in order", async () => {
  let n = 0, next = 0;
  const from = new ReadableStream({
    pull(c) {
      if (n === 10_000) c.close();
      else c.enqueue(n++);
    },
  });
  await from.pipeThrough(new TransformStream()).pipeTo(new WritableStream({
    write(chunk) {
      if (chunk !== next++) throw new Error(`${chunk} in place of ${next - 1}`);
    },
  }));
  equal(next, 10_000);
});
