// Checks of the transfer of streams by structuredClone and MessagePort (Streams §8.2).
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const streamOf = (...chunks) => new ReadableStream({
  start(controller) {
    for (const chunk of chunks) controller.enqueue(chunk);
    controller.close();
  },
});

about("structuredClone");

check("a transferred ReadableStream delivers clones of its chunks", async () => {
  const chunk = { a: new Map([[1, 2]]) };
  const stream = streamOf(chunk, "b");
  throws("DataCloneError", () => structuredClone(stream));
  const moved = structuredClone({ stream }, { transfer: [stream] }).stream;
  equal([moved instanceof ReadableStream, moved === stream, stream.locked, moved.locked], [true, false, true, false]);
  const chunks = await Array.fromAsync(moved);
  equal([chunks[0] === chunk, chunks[0].a.get(1), chunks[1]], [false, 2, "b"]);
});

check("a locked stream cannot be transferred", () => {
  const stream = streamOf();
  stream.getReader();
  throws("DataCloneError", () => structuredClone(stream, { transfer: [stream] }));
  const sink = new WritableStream();
  sink.getWriter();
  throws("DataCloneError", () => structuredClone(sink, { transfer: [sink] }));
  const transform = new TransformStream();
  transform.writable.getWriter();
  throws("DataCloneError", () => structuredClone(transform, { transfer: [transform] }));
});

check("canceling a transferred stream cancels its source with a clone of the reason", async () => {
  let reason;
  const stream = new ReadableStream({ cancel(given) { reason = given; } });
  const moved = structuredClone(stream, { transfer: [stream] });
  const given = { why: 1 };
  await moved.cancel(given);
  await new Promise((resolve) => setTimeout(resolve));
  equal([reason.why, reason === given], [1, false]);
});

check("an error of the source, or a chunk that cannot be cloned, fails the transferred stream", async () => {
  const failing = new ReadableStream({ pull() { throw new RangeError("mine"); } });
  await rejects("RangeError", structuredClone(failing, { transfer: [failing] }).getReader().read(), "mine");
  const uncloned = new ReadableStream({ start: (controller) => controller.enqueue(() => {}) });
  await rejects("DataCloneError", structuredClone(uncloned, { transfer: [uncloned] }).getReader().read());
});

check("a transferred WritableStream writes to the original sink, with backpressure, and ends with it", async () => {
  const written = [];
  let reason;
  const sink = () => new WritableStream({
    write: (chunk) => void written.push(chunk), close: () => void written.push("end"), abort: (given) => void (reason = given),
  });
  const stream = sink();
  const writer = structuredClone(stream, { transfer: [stream] }).getWriter();
  equal(stream.locked, true);
  writer.write({ a: 1 });
  writer.write(2);
  await writer.close();
  await new Promise((resolve) => setTimeout(resolve));
  equal(written, [{ a: 1 }, 2, "end"]);
  const other = sink();
  await structuredClone(other, { transfer: [other] }).abort("why");
  await new Promise((resolve) => setTimeout(resolve));
  equal(reason, "why");
});

check("a transferred TransformStream uses the original transformer", async () => {
  const double = new TransformStream({ transform: (chunk, controller) => controller.enqueue(2 * chunk) });
  const moved = structuredClone(double, { transfer: [double] });
  equal([moved instanceof TransformStream, double.readable.locked, double.writable.locked], [true, true, true]);
  equal(await Array.fromAsync(streamOf(1, 2).pipeThrough(moved)), [2, 4]);
});

check("a stream can be transferred through a port", async () => {
  const { port1, port2 } = new MessageChannel();
  const stream = streamOf(1, 2);
  const received = new Promise((resolve) => {
    port2.onmessage = resolve;
  });
  port1.postMessage({ stream }, [stream]);
  const { data, ports } = await received;
  equal([await Array.fromAsync(data.stream), ports], [[1, 2], []]);
  port1.close();
});
