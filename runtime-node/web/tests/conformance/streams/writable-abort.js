// Checks of aborting a WritableStream, and WritableStreamDefaultController (Streams §5.2, §5.4).
import { about, check, equal, rejects } from "../check.js";
import { error1, error2, later, pending, recorder } from "../stream-fixtures.js";
export { default } from "../check.js";

about("WritableStream");

check("aborting discards the queue and aborts the sink", async () => {
  const write = Promise.withResolvers();
  const sink = recorder({ write: () => write.promise });
  const stream = new WritableStream(sink);
  const writer = stream.getWriter();
  await writer.ready;
  const [first, second, closed] = [writer.write("a"), writer.write("b"), writer.close()];
  const aborted = writer.abort(error1);
  equal(writer.abort(error2) === aborted, true);
  equal(writer.desiredSize, null);
  await rejects("one", writer.ready);
  await rejects("TypeError", writer.write(), "closed");
  equal([sink.events, await pending(aborted)], [[["write", "a"]], true]); // the abort waits for the write in flight
  write.resolve();
  equal(await first, undefined);
  await rejects("one", second);
  await rejects("one", closed);
  equal(await aborted, undefined);
  equal(sink.events, [["write", "a"], ["abort", error1]]);
  await rejects("one", writer.closed);
});

check("a failed abort rejects with its error, and the stream has the reason of the abort", async () => {
  for (const abort of [() => { throw error2; }, () => Promise.reject(error2)]) {
    const writer = new WritableStream({ abort }).getWriter();
    await rejects("two", writer.abort(error1));
    await rejects("one", writer.closed);
  }
});

check("an abort waits until start is done", async () => {
  const start = Promise.withResolvers();
  const sink = recorder({ start: () => start.promise });
  const aborted = new WritableStream(sink).abort(error1);
  await later();
  equal(sink.events, []);
  start.resolve();
  await aborted;
  equal(sink.events, [["abort", error1]]);
  const failing = recorder({ start: () => Promise.reject(error2) });
  await new WritableStream(failing).abort(error1);
  equal(failing.events, [["abort", error1]]);
});

check("an abort during a close has the result of the close", async () => {
  const close = Promise.withResolvers();
  const sink = recorder({ close: () => close.promise });
  const writer = new WritableStream(sink).getWriter();
  await writer.ready;
  const closed = writer.close();
  await later();
  const aborted = writer.abort(error1);
  close.resolve();
  equal([await closed, await aborted, await writer.closed, sink.events], [undefined, undefined, undefined, ["close"]]);
  await rejects("one", writer.ready);
  const bad = Promise.withResolvers();
  const other = new WritableStream({ close: () => bad.promise }).getWriter();
  await other.ready;
  const closing = other.close();
  await later();
  const aborting = other.abort(error1);
  bad.reject(error2);
  await rejects("two", closing);
  await rejects("two", aborting);
  await rejects("one", other.closed);
});

about("WritableStreamDefaultController");

check("the controller's signal is aborted immediately, with the reason", async () => {
  const write = Promise.withResolvers();
  const sink = recorder({ write: () => write.promise });
  const writer = new WritableStream(sink).getWriter();
  await writer.ready;
  const { signal } = sink.controller;
  equal([signal instanceof AbortSignal, signal === sink.controller.signal, signal.aborted], [true, true, false]);
  writer.write("a");
  const events = [];
  signal.addEventListener("abort", () => events.push(signal.reason));
  const aborted = writer.abort(error1);
  equal([events, signal.aborted], [[error1], true]);
  write.reject(error2);
  await aborted;
  // A signal that is created after the abort is already aborted.
  const late = recorder();
  const stream = new WritableStream(late);
  await stream.abort("why");
  equal([late.controller.signal.aborted, late.controller.signal.reason], [true, "why"]);
  // The sink's own error does not abort the signal.
  const failed = recorder();
  new WritableStream(failed);
  failed.controller.error(error1);
  await later();
  equal(failed.controller.signal.aborted, false);
});

check("a listener of the signal may abort and error the stream", async () => {
  const sink = recorder();
  const stream = new WritableStream(sink);
  sink.controller.signal.addEventListener("abort", () => {
    sink.controller.error(error2);
    stream.abort("again").catch(() => {});
  });
  await stream.abort(error1).catch(() => {});
  const writer = stream.getWriter();
  await rejects("two", writer.closed);
});

check("error fails the stream after the write in flight", async () => {
  const write = Promise.withResolvers();
  const sink = recorder({ write: () => write.promise });
  const writer = new WritableStream(sink).getWriter();
  await writer.ready;
  const [first, second] = [writer.write("a"), writer.write("b")];
  sink.controller.error(error1);
  sink.controller.error(error2);
  await rejects("one", writer.ready);
  equal([await pending(writer.closed), writer.desiredSize], [true, null]);
  write.resolve();
  equal(await first, undefined);
  await rejects("one", second);
  await rejects("one", writer.closed);
  equal(sink.events, [["write", "a"]]);
});

check("error has no effect on a stream that is closed", async () => {
  const sink = recorder();
  const writer = new WritableStream(sink).getWriter();
  await writer.close();
  sink.controller.error(error1);
  equal(await writer.closed, undefined);
});

about("WritableStream");

check("an abort after an error rejects with that error", async () => {
  const write = Promise.withResolvers();
  const sink = recorder({ write: () => write.promise });
  const writer = new WritableStream(sink).getWriter();
  await writer.ready;
  writer.write("a").catch(() => {});
  sink.controller.error(error1);
  const aborted = writer.abort(error2);
  write.resolve();
  await rejects("one", aborted);
  equal(sink.events, [["write", "a"]]);
});

check("a strategy may release the writer, or close or abort the stream, while it measures a chunk", async () => {
  let writer;
  const released = new WritableStream({}, { size: () => (writer.releaseLock(), 1) });
  writer = released.getWriter();
  await rejects("TypeError", writer.write("a"));
  const closing = new WritableStream({}, { size: () => (writer.close(), 1) });
  writer = closing.getWriter();
  await rejects("TypeError", writer.write("a"));
  const aborting = new WritableStream({}, { size: () => (writer.abort(error1), 1) });
  writer = aborting.getWriter();
  await rejects("one", writer.write("a"));
});
