// Checks of ReadableStreamBYOBReader and ReadableStreamBYOBRequest (Streams §4.5, §4.8).
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes, error1, pending } from "../stream-fixtures.js";
export { default } from "../check.js";

const numbers = (view) => [...new Uint8Array(view.buffer, view.byteOffset, view.byteLength)];
// Returns a byte stream, its controller, and the getter `byob`, which returns a new BYOB reader.
function make(source = {}, strategy = undefined) {
  let controller;
  const stream = new ReadableStream({ type: "bytes", ...source, start: (c) => ((controller = c), source.start?.(c)) }, strategy);
  return { stream, controller, get byob() { return stream.getReader({ mode: "byob" }); } };
}

about("ReadableStreamBYOBReader");

check("a default reader gets any enqueued view as bytes", async () => {
  const { controller, stream } = make();
  controller.enqueue(new Uint16Array([0x0201, 0x0403]));
  controller.enqueue(new DataView(bytes(5, 6, 7).buffer, 1));
  equal(controller.desiredSize, -6);
  const reader = stream.getReader();
  equal(await reader.read(), { value: bytes(1, 2, 3, 4), done: false });
  equal(await reader.read(), { value: bytes(6, 7), done: false });
  equal(controller.desiredSize, 0);
});

check("pending reads get chunks as they arrive", async () => {
  const { controller, stream } = make();
  const reader = stream.getReader();
  const reads = [reader.read(), reader.read(), reader.read()];
  controller.enqueue(bytes(1));
  controller.enqueue(bytes(2));
  controller.close();
  equal(await Promise.all(reads), [{ value: bytes(1), done: false }, { value: bytes(2), done: false }, { value: undefined, done: true }]);
});

check("a view is transferred to the stream, and is filled with the queued bytes", async () => {
  const fixture = make();
  fixture.controller.enqueue(bytes(1, 2, 3));
  fixture.controller.enqueue(bytes(4, 5));
  const reader = fixture.byob;
  const mine = new Uint8Array(10);
  const read = reader.read(mine.subarray(2, 6));
  equal([mine.buffer.detached, mine.length], [true, 0]);
  const { value, done } = await read;
  equal([value, done, value.byteOffset, value.buffer.byteLength], [bytes(1, 2, 3, 4), false, 2, 10]);
  equal((await reader.read(new Uint8Array(10))).value, bytes(5));
});

check("views are returned with their type and offset", async () => {
  for (const View of [Int8Array, Uint8ClampedArray, Int16Array, Uint32Array, Float16Array, Float32Array, Float64Array, BigInt64Array, DataView]) {
    const fixture = make();
    fixture.controller.enqueue(new Uint8Array(24).fill(1));
    const { value } = await fixture.byob.read(new View(new ArrayBuffer(32), 8));
    equal([value.constructor === View, value.byteOffset, value.byteLength], [true, 8, 24], View.name);
  }
  class Mine extends Uint8Array {}
  const fixture = make();
  fixture.controller.enqueue(bytes(1));
  equal((await fixture.byob.read(new Mine(1))).value.constructor === Uint8Array, true);
});

check("only whole elements are returned; the rest waits", async () => {
  const fixture = make();
  fixture.controller.enqueue(bytes(1, 2, 3));
  const reader = fixture.byob;
  equal(numbers((await reader.read(new Uint16Array(4))).value), [1, 2]);
  const read = reader.read(new Uint16Array(4));
  equal(await pending(read), true);
  fixture.controller.enqueue(bytes(4, 5));
  equal(numbers((await read).value), [3, 4]);
  equal(numbers((await reader.read(new Uint8Array(4))).value), [5]);
});

about("ReadableStreamBYOBRequest");

check("a source may fill the view in place", async () => {
  const fixture = make({
    pull(c) {
      const { view } = c.byobRequest;
      equal([view.constructor === Uint8Array, view.byteOffset, view.byteLength], [true, 2, 4]);
      view.set([1, 2, 3]);
      c.byobRequest.respond(3);
      equal(c.byobRequest, null);
    },
  });
  const { value } = await fixture.byob.read(new Uint8Array(new ArrayBuffer(8), 2, 4));
  equal([value, value.buffer.byteLength], [bytes(1, 2, 3), 8]);
});

check("byobRequest is the same object until it is responded to", async () => {
  const fixture = make();
  equal(fixture.controller.byobRequest, null);
  const reader = fixture.byob;
  const read = reader.read(new Uint8Array(4));
  const request = fixture.controller.byobRequest;
  equal([request === fixture.controller.byobRequest, request.view === request.view, `${request}`], [true, true, "[object ReadableStreamBYOBRequest]"]);
  request.view[0] = 1;
  request.respond(1);
  equal([request.view, fixture.controller.byobRequest], [null, null]);
  throws("TypeError", () => request.respond(1));
  throws("TypeError", () => request.respondWithNewView(bytes(1)));
  equal((await read).value, bytes(1));
});

check("respond takes a count that fits", async () => {
  const fixture = make();
  const reader = fixture.byob;
  reader.read(new Uint8Array(4)).catch(() => {});
  const request = fixture.controller.byobRequest;
  throws("TypeError", () => request.respond());
  for (const bad of [-1, NaN, Infinity, 2 ** 53, "a"]) throws("TypeError", () => request.respond(bad));
  throws("RangeError", () => request.respond(5));
  throws("TypeError", () => request.respond(0));
  fixture.controller.byobRequest.respond("4");
});

check("respond counts up to a whole element", async () => {
  const fixture = make();
  const read = fixture.byob.read(new Uint32Array(2));
  fixture.controller.byobRequest.view.set([1, 2, 3]);
  fixture.controller.byobRequest.respond(3);
  equal(await pending(read), true);
  const { view } = fixture.controller.byobRequest;
  equal([view.byteOffset, view.byteLength], [3, 5]);
  view.set([4, 5]);
  fixture.controller.byobRequest.respond(2);
  equal(numbers((await read).value), [1, 2, 3, 4]);
  // The fifth byte has been kept.
  equal(fixture.controller.desiredSize, -1);
});

check("respondWithNewView takes another buffer in place of the one that the source received", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const read = reader.read(new Uint8Array(4));
  const request = fixture.controller.byobRequest;
  throws("TypeError", () => request.respondWithNewView());
  throws("TypeError", () => request.respondWithNewView(new ArrayBuffer(4)));
  throws("RangeError", () => request.respondWithNewView(bytes(1, 2, 3))); // another buffer size
  throws("RangeError", () => request.respondWithNewView(bytes(1, 2, 3, 4).subarray(1))); // another offset
  throws("TypeError", () => request.respondWithNewView(bytes(1, 2, 3, 4).subarray(0, 0)));
  const { view } = request;
  const moved = new Uint8Array(view.buffer.transfer());
  throws("TypeError", () => request.respond(1)); // the original view has been transferred
  moved.set([7, 8]);
  request.respondWithNewView(moved.subarray(0, 2));
  equal([moved.length, (await read).value], [0, bytes(7, 8)]);
});

check("a view whose buffer the source has transferred cannot be filled", async () => {
  const fixture = make();
  fixture.byob.read(new Uint8Array(4)).catch(() => {});
  fixture.controller.byobRequest.view.buffer.transfer();
  throws("TypeError", () => fixture.controller.enqueue(bytes(1)), "detached");
  throws("TypeError", () => fixture.controller.byobRequest.respond(1), "detached");
});

about("ReadableStreamBYOBReader");

check("read rejects empty views", async () => {
  const reader = make().byob;
  for (const bad of [undefined, null, 1, {}, new ArrayBuffer(4)]) await rejects("TypeError", reader.read(bad));
  await rejects("TypeError", reader.read());
  await rejects("TypeError", reader.read(bytes()));
  await rejects("TypeError", reader.read(new Uint8Array(new ArrayBuffer(4), 0, 0)));
  const gone = bytes(1);
  gone.buffer.transfer();
  await rejects("TypeError", reader.read(gone));
  const memory = new WebAssembly.Memory({ initial: 1 });
  await rejects("TypeError", reader.read(new Uint8Array(memory.buffer)));
  equal(memory.buffer.detached, false);
  const { controller } = make();
  throws("TypeError", () => controller.enqueue(new Uint8Array(memory.buffer, 0, 4)));
});

check("min is the number of elements to wait for", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const read = reader.read(new Uint8Array(5), { min: 3 });
  fixture.controller.enqueue(bytes(1, 2));
  equal(await pending(read), true);
  fixture.controller.enqueue(bytes(3, 4, 5, 6));
  equal((await read).value, bytes(1, 2, 3, 4, 5));
  const words = reader.read(new Uint16Array(4), { min: 2 });
  fixture.controller.enqueue(bytes(7, 8)); // three bytes, with the byte 6 that is still queued
  equal(await pending(words), true);
  fixture.controller.byobRequest.view[0] = 9;
  fixture.controller.byobRequest.respond(1);
  equal(numbers((await words).value), [6, 7, 8, 9]);
});

check("min must be at least one and fit into the view", async () => {
  const reader = make().byob;
  for (const min of [0, -1, NaN, "a", 2 ** 60]) await rejects("TypeError", reader.read(new Uint8Array(4), { min }));
  await rejects("RangeError", reader.read(new Uint8Array(4), { min: 5 }));
  await rejects("RangeError", reader.read(new Uint16Array(4), { min: 5 }));
  await rejects("RangeError", reader.read(new DataView(new ArrayBuffer(4)), { min: 5 }));
  await rejects("TypeError", reader.read(new Uint8Array(4), 1));
  await rejects("one", reader.read(new Uint8Array(4), { get min() { throw error1; } }));
  const view = new Uint8Array(4);
  await rejects("TypeError", reader.read(view, { get min() { view.buffer.transfer(); return 1; } }));
});

check("fewer elements than min are returned at the end", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const read = reader.read(new Uint8Array(4), { min: 4 });
  fixture.controller.enqueue(bytes(1, 2));
  fixture.controller.close();
  fixture.controller.byobRequest.respond(0);
  equal(await read, { value: bytes(1, 2), done: true });
});

check("at the end, views are returned empty", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const reads = [reader.read(new Uint8Array(4)), reader.read(new Uint16Array(3))];
  fixture.controller.close();
  equal(await pending(reads[0]), true); // the source still has the view
  fixture.controller.byobRequest.respond(0);
  const [first, second] = await Promise.all(reads);
  equal([first.done, first.value.length, first.value.buffer.byteLength], [true, 0, 4]);
  equal([second.done, second.value.constructor === Uint16Array, second.value.length], [true, true, 0]);
  const { value, done } = await reader.read(new Uint8Array(new ArrayBuffer(8), 4));
  equal([done, value.byteOffset, value.byteLength, value.buffer.byteLength], [true, 4, 0, 8]);
  equal(await reader.closed, undefined);
});

check("the view of a closed stream takes no bytes", async () => {
  const fixture = make();
  fixture.byob.read(new Uint8Array(4)).catch(() => {});
  fixture.controller.close();
  const request = fixture.controller.byobRequest;
  throws("TypeError", () => request.respond(1));
  throws("TypeError", () => request.respondWithNewView(bytes(1, 2, 3, 4)));
  request.respondWithNewView(bytes(1, 2, 3, 4).subarray(0, 0));
});

check("pending views are filled in order", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const reads = [1, 2, 3].map((n) => reader.read(new Uint8Array(n)));
  fixture.controller.enqueue(bytes(1, 2, 3, 4, 5));
  equal((await Promise.all(reads)).map(({ value }) => [...value]), [[1], [2, 3], [4, 5]]);
});

check("the source keeps the view of a released reader, and the next reader gets its bytes", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const reads = [reader.read(new Uint8Array(4)), reader.read(new Uint8Array(4))];
  const request = fixture.controller.byobRequest;
  reader.releaseLock();
  for (const read of reads) await rejects("TypeError", read);
  await rejects("TypeError", reader.read(new Uint8Array(1)));
  await rejects("TypeError", reader.closed);
  request.view.set([1, 2, 3]);
  const next = fixture.byob;
  const read = next.read(new Uint8Array(2));
  request.respond(3);
  equal((await read).value, bytes(1, 2));
  equal((await next.read(new Uint8Array(4))).value, bytes(3));
});

check("releasing a reader with a pending read keeps the stream usable", async () => {
  const fixture = make({ autoAllocateChunkSize: 8 });
  const plain = fixture.stream.getReader();
  const read = plain.read();
  const request = fixture.controller.byobRequest;
  plain.releaseLock();
  await rejects("TypeError", read);
  const again = fixture.stream.getReader();
  const waiting = again.read();
  request.view.set([1, 2]);
  request.respond(2);
  equal((await waiting).value, bytes(1, 2));
  const closing = make();
  const first = closing.byob;
  first.read(new Uint8Array(4)).catch(() => {});
  const open = closing.controller.byobRequest;
  first.releaseLock();
  closing.controller.close();
  open.respond(0);
  equal((await closing.byob.read(new Uint8Array(1))).done, true);
});
