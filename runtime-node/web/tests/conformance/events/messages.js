// Checks of MessageEvent, MessageChannel and MessagePort (HTML §9.1, §9.4).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

/** Waits until the turns that are due have run. */
const dueTurns = () => new Promise((resolve) => setTimeout(resolve, 2));
const next = (port) => new Promise((resolve) => { port.onmessage = resolve; });

about("MessagePort");

check("a message arrives at the other port as a clone", async () => {
  const { port1, port2 } = new MessageChannel();
  const got = next(port2);
  const sent = { a: [1] };
  port1.postMessage(sent);
  sent.a.push(2);
  const event = await got;
  equal([event.type, event.data, event.target === port2, event instanceof MessageEvent, event.isTrusted],
    ["message", { a: [1] }, true, true, true]);
  equal([event.origin, event.lastEventId, event.source, event.ports, event.bubbles, event.cancelable], ["", "", null, [], false, false]);
  const back = next(port1);
  port2.postMessage("back");
  equal((await back).data, "back");
});

check("messages arrive in later turns, one by one and in order", async () => {
  const { port1, port2 } = new MessageChannel();
  const seen = [];
  port2.onmessage = ({ data }) => {
    seen.push(data);
    queueMicrotask(() => seen.push(`after ${data}`));
  };
  for (let i = 0; i < 3; i++) port1.postMessage(i);
  seen.push("now");
  await dueTurns();
  equal(seen, ["now", 0, "after 0", 1, "after 1", 2, "after 2"]);
});

check("a port waits until it is started", async () => {
  const { port1, port2 } = new MessageChannel();
  const seen = [];
  port2.addEventListener("message", ({ data }) => seen.push(data));
  port1.postMessage(1);
  port1.postMessage(2);
  await dueTurns();
  equal(seen, []);
  port2.start();
  port2.start();
  port1.postMessage(3);
  await dueTurns();
  equal(seen, [1, 2, 3]);
  const other = new MessageChannel();
  other.port1.postMessage("kept");
  await dueTurns();
  equal((await next(other.port2)).data, "kept");
});

check("a closed port neither sends nor receives", async () => {
  const { port1, port2 } = new MessageChannel();
  const seen = [];
  port2.onmessage = ({ data }) => seen.push(data);
  port2.onclose = ({ type }) => seen.push(type);
  port1.postMessage("before");
  port1.close();
  port1.close();
  port1.postMessage("after");
  port2.postMessage("unread");
  await dueTurns();
  equal(seen, ["before", "close"]);
  throws("DataCloneError", () => port1.postMessage(() => {}));
});

check("buffers and ports can be transferred", async () => {
  const { port1, port2 } = new MessageChannel();
  const inner = new MessageChannel();
  const got = next(port2);
  const buffer = new ArrayBuffer(4);
  port1.postMessage({ buffer, port: inner.port1 }, [buffer, inner.port1]);
  const { data, ports } = await got;
  equal([data.buffer.byteLength, buffer.detached, ports.length, ports[0] === data.port, Object.isFrozen(ports)],
    [4, true, 1, true, true]);
  const through = next(inner.port2);
  ports[0].postMessage("through");
  equal((await through).data, "through");
  port1.postMessage(1, { transfer: [new ArrayBuffer(1)] });
});

check("queued messages of a port are transferred with it", async () => {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage("early");
  await dueTurns();
  const carrier = new MessageChannel();
  const got = next(carrier.port2);
  carrier.port1.postMessage(null, [port2]);
  port1.postMessage("late");
  const [port] = (await got).ports;
  const seen = [];
  port.onmessage = ({ data }) => seen.push(data);
  await dueTurns();
  equal(seen, ["early", "late"]);
});

check("a port cannot be sent through itself, and is lost if sent through its peer", async () => {
  const { port1, port2 } = new MessageChannel();
  throws("DataCloneError", () => port1.postMessage(1, [port1]));
  throws("DataCloneError", () => port1.postMessage(1, [port2, port2]));
  throws("DataCloneError", () => port1.postMessage(() => {}));
  throws("TypeError", () => port1.postMessage());
  throws("TypeError", () => port1.postMessage(1, 1));
  port1.postMessage("lost", [port2]);
  await dueTurns();
});

about("MessageChannel");

check("ports are created only by channels", () => {
  throws("TypeError", () => new MessagePort());
  throws("TypeError", () => MessageChannel());
  const channel = new MessageChannel();
  equal([channel.port1 === channel.port1, channel.port1 instanceof EventTarget, String(channel), String(channel.port1)],
    [true, true, "[object MessageChannel]", "[object MessagePort]"]);
  equal([channel.port1.onmessage, channel.port1.onmessageerror, channel.port1.onclose], [null, null, null]);
  throws("TypeError", () => MessagePort.prototype.postMessage.call({}, 1));
});

about("MessagePort");

check("a handler that throws does not delay the next message", async () => {
  const { port1, port2 } = new MessageChannel();
  const seen = [];
  globalThis.onerror = (message) => (seen.push(message), true);
  port2.onmessage = ({ data }) => {
    if (data === 1) throw new Error("mine");
    seen.push(data);
  };
  port1.postMessage(1);
  port1.postMessage(2);
  await dueTurns();
  globalThis.onerror = null;
  equal(seen, ["Uncaught Error: mine", 2]);
});

about("MessageEvent");

check("a message event can be constructed", () => {
  const { port1 } = new MessageChannel();
  const event = new MessageEvent("t", { data: 1, origin: "o", lastEventId: "l", source: port1, ports: [port1], bubbles: true });
  equal([event.type, event.data, event.origin, event.lastEventId, event.source === port1, event.ports.length, event.bubbles, event.isTrusted],
    ["t", 1, "o", "l", true, 1, true, false]);
  equal([new MessageEvent("t").data, event.ports === event.ports, Object.isFrozen(event.ports)], [null, true, true]);
  throws("TypeError", () => new MessageEvent());
  throws("TypeError", () => new MessageEvent("t", { source: {} }));
  throws("TypeError", () => new MessageEvent("t", { ports: [1] }));
  event.initMessageEvent("u", false, true, "d", "p", "m", null, []);
  equal([event.type, event.bubbles, event.cancelable, event.data, event.origin, event.lastEventId, event.source, event.ports],
    ["u", false, true, "d", "p", "m", null, []]);
});

about("MessagePort");

check("values of many types can be sent", async () => {
  const { port1, port2 } = new MessageChannel();
  for (const value of [undefined, null, 0n, "", new Map([[1, new Set([2])]]), /x/g]) {
    const got = next(port2);
    port1.postMessage(value);
    equal(String((await got).data), String(value));
  }
});
