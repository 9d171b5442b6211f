// Checks of byte streams: ReadableByteStreamController (Streams §4.7).
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes, error1, later } from "../stream-fixtures.js";
export { default } from "../check.js";

// Returns a byte stream, its controller, and `byob`, a getter that acquires a new BYOB reader.
function make(source = {}, strategy = undefined) {
  let controller;
  const stream = new ReadableStream({ type: "bytes", ...source, start: (c) => ((controller = c), source.start?.(c)) }, strategy);
  return { stream, controller, get byob() { return stream.getReader({ mode: "byob" }); } };
}

about("ReadableByteStreamController");

check("the constructor creates byte streams", () => {
  equal(`${make().controller}`, "[object ReadableByteStreamController]");
  throws("RangeError", () => new ReadableStream({ type: "bytes" }, { size: () => 1 }));
  throws("TypeError", () => new ReadableStream({ type: "bytes", autoAllocateChunkSize: 0 }));
  throws("RangeError", () => new ReadableStream({ type: "bytes" }, { highWaterMark: -1 }));
  equal([make().controller.desiredSize, make({}, { highWaterMark: 7 }).controller.desiredSize], [0, 7]);
});

check("chunks must be views that are not empty", () => {
  const { controller } = make();
  for (const bad of [undefined, null, "a", 1, {}, new ArrayBuffer(1), [1]]) throws("TypeError", () => controller.enqueue(bad));
  throws("TypeError", () => controller.enqueue());
  throws("TypeError", () => controller.enqueue(bytes()));
  throws("TypeError", () => controller.enqueue(new DataView(new ArrayBuffer(0))));
  const gone = bytes(1);
  gone.buffer.transfer();
  throws("TypeError", () => controller.enqueue(gone));
});

check("an enqueued chunk is transferred to the stream", async () => {
  const { controller, stream } = make();
  const whole = bytes(1, 2, 3, 4);
  controller.enqueue(whole.subarray(1, 3));
  equal([whole.buffer.detached, whole.length], [true, 0]);
  const { value } = await stream.getReader().read();
  equal([value, value.byteOffset, value.buffer.byteLength, value.constructor === Uint8Array], [bytes(2, 3), 1, 4, true]);
});

check("closing in the middle of an element fails the stream", async () => {
  const fixture = make();
  const read = fixture.byob.read(new Uint16Array(2));
  fixture.controller.enqueue(bytes(1));
  throws("TypeError", () => fixture.controller.close());
  await rejects("TypeError", read);
  const other = make();
  other.controller.enqueue(bytes(1));
  other.controller.close();
  await rejects("TypeError", other.byob.read(new Uint16Array(2)));
});

check("close waits for the queued chunks", async () => {
  const fixture = make();
  fixture.controller.enqueue(bytes(1, 2));
  fixture.controller.close();
  throws("TypeError", () => fixture.controller.close());
  throws("TypeError", () => fixture.controller.enqueue(bytes(1)));
  const reader = fixture.byob;
  equal(await reader.read(new Uint8Array(1)), { value: bytes(1), done: false });
  equal(await reader.read(new Uint8Array(4)), { value: bytes(2), done: false });
  equal((await reader.read(new Uint8Array(4))).done, true);
});

check("controller.error() rejects pending reads and makes later calls fail", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const reads = [reader.read(new Uint8Array(4)), reader.read(new Uint8Array(4))];
  const request = fixture.controller.byobRequest;
  fixture.controller.error(error1);
  for (const read of reads) await rejects("one", read);
  await rejects("one", reader.closed);
  await rejects("one", reader.read(new Uint8Array(4)));
  equal([request.view, fixture.controller.byobRequest, fixture.controller.desiredSize], [null, null, null]);
  throws("TypeError", () => request.respond(1));
});

check("canceling resolves pending reads without a view", async () => {
  const reasons = [];
  const fixture = make({ cancel: (reason) => void reasons.push(reason) });
  const reader = fixture.byob;
  const reads = [reader.read(new Uint8Array(4)), reader.read(new Uint8Array(4))];
  const request = fixture.controller.byobRequest;
  equal(await reader.cancel("why"), undefined);
  equal(await Promise.all(reads), [{ value: undefined, done: true }, { value: undefined, done: true }]);
  equal([reasons, request.view], [["why"], null]);
  fixture.controller.error(error1);
  throws("TypeError", () => fixture.controller.enqueue(bytes(1)));
});

check("with autoAllocateChunkSize, the source gets a view for every reader", async () => {
  const sizes = [];
  const stream = new ReadableStream({
    type: "bytes",
    autoAllocateChunkSize: 16,
    pull(c) {
      sizes.push(c.byobRequest.view.byteLength);
      c.byobRequest.view[0] = sizes.length;
      c.byobRequest.respond(1);
    },
  });
  const reader = stream.getReader();
  const { value } = await reader.read();
  equal([value, value.buffer.byteLength], [bytes(1), 16]);
  equal((await reader.read()).value, bytes(2));
  reader.releaseLock();
  equal((await stream.getReader({ mode: "byob" }).read(new Uint8Array(3))).value, bytes(3));
  equal(sizes, [16, 16, 3]);
});

check("a chunk enqueued while the source has a view is copied into the view", async () => {
  const fixture = make();
  const read = fixture.byob.read(new Uint8Array(4));
  const request = fixture.controller.byobRequest;
  fixture.controller.enqueue(bytes(1, 2));
  equal([(await read).value, request.view], [bytes(1, 2), null]);
});

check("a source is pulled while the queue has room in bytes, or a read is pending", async () => {
  let pulls = 0;
  const stream = new ReadableStream({ type: "bytes", pull: (c) => (pulls++, c.enqueue(new Uint8Array(4))) }, { highWaterMark: 10 });
  await later();
  equal(pulls, 3);
  await stream.getReader({ mode: "byob" }).read(new Uint8Array(12));
  await later();
  equal(pulls, 6);
});

check("a failing pull or start errors the stream", async () => {
  for (const source of [{ pull() { throw error1; } }, { pull: () => Promise.reject(error1) }, { start: () => Promise.reject(error1) }]) {
    await rejects("one", new ReadableStream({ type: "bytes", ...source }).getReader({ mode: "byob" }).read(new Uint8Array(1)));
  }
});

check("a controller may be called from a getter of then", async () => {
  const fixture = make();
  const reader = fixture.byob;
  const reads = [reader.read(new Uint8Array(1)), reader.read(new Uint8Array(1)), reader.read(new Uint8Array(1))];
  let busy = false;
  Object.defineProperty(Object.prototype, "then", {
    configurable: true,
    get() {
      if (busy || !Object.hasOwn(this, "done")) return undefined;
      busy = true;
      fixture.controller.enqueue(bytes(9));
      fixture.controller.error(error1);
      return undefined;
    },
  });
  try {
    fixture.controller.enqueue(bytes(1, 2, 3));
  } catch {
  } finally {
    delete Object.prototype.then;
  }
  const [first] = await Promise.allSettled(reads);
  equal(first.value, { value: bytes(1), done: false });
});

check("members reject receivers of other types, with a promise if they return one", async () => {
  const promises = new Set(["cancel", "read", "closed"]);
  for (const Class of [ReadableStreamBYOBReader, ReadableStreamBYOBRequest, ReadableByteStreamController]) {
    for (const key of Object.keys(Class.prototype)) {
      const { get, value } = Object.getOwnPropertyDescriptor(Class.prototype, key);
      for (const self of [{}, undefined, new ReadableStream().getReader(), Class.prototype]) {
        const call = () => Reflect.apply(get ?? value, self, [bytes(1)]);
        if (promises.has(key)) await rejects("TypeError", call());
        else throws("TypeError", call);
      }
    }
  }
});

check("interfaces have the shape that Web IDL gives them", () => {
  equal(Object.keys(ReadableStreamBYOBReader.prototype), ["closed", "cancel", "read", "releaseLock"]);
  equal(Object.keys(ReadableStreamBYOBRequest.prototype), ["view", "respond", "respondWithNewView"]);
  equal(Object.keys(ReadableByteStreamController.prototype), ["byobRequest", "desiredSize", "close", "enqueue", "error"]);
  equal([ReadableStreamBYOBReader.length, ReadableStreamBYOBReader.prototype.read.length, ReadableStreamBYOBRequest.prototype.respond.length], [1, 1, 1]);
  throws("TypeError", () => new ReadableStreamBYOBReader());
  throws("TypeError", () => new ReadableStreamBYOBReader({}));
});
