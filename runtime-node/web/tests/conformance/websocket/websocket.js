// Checks of WebSocket and CloseEvent (WebSockets §3, §4) as far as they need no origin, and
// WebSocketPair; `runtime-node/tests/fetch/sockets` tests WebSockets over a network.

import { about, check, equal, throws } from "../check.js";

export { default } from "../check.js";

const next = (socket, type) => new Promise((resolve) => socket.addEventListener(type, resolve, { once: true }));
/** Waits until the turns that are due have run. */
const dueTurns = () => new Promise((resolve) => setTimeout(resolve, 2));

/** Returns two accepted sockets that are connected to each other. */
function pair() {
  const [one, other] = Object.values(new WebSocketPair());
  one.accept();
  other.accept();
  return [one, other];
}

/** Returns a socket that never connects. */
const nowhere = (url = "ws://127.0.0.1/", ...rest) => {
  const socket = new WebSocket(url, ...rest);
  socket.close();
  return socket;
};

about("WebSocket");

check("a socket is an EventTarget with its constants on itself and on its instances", () => {
  const names = ["CONNECTING", "OPEN", "CLOSING", "CLOSED"];
  equal(names.map((name) => WebSocket[name]), [0, 1, 2, 3]);
  const socket = nowhere();
  equal(names.map((name) => socket[name]), [0, 1, 2, 3]);
  equal([socket instanceof EventTarget, String(socket), WebSocket.length], [true, "[object WebSocket]", 1]);
  throws("TypeError", () => new WebSocket());
  throws("TypeError", () => WebSocket("ws://a.test/"));
});

check("a socket begins in the state CONNECTING, without a protocol or extensions", () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  equal([socket.readyState, socket.protocol, socket.extensions, socket.bufferedAmount, socket.binaryType], [0, "", "", 0, "blob"]);
  equal([socket.onopen, socket.onmessage, socket.onerror, socket.onclose], [null, null, null, null]);
  socket.close();
});

check("the URL is parsed, and http: and https: are other names for ws: and wss:", () => {
  equal(nowhere("WS://A.test/%7e/../x?y").url, "ws://a.test/x?y");
  equal([nowhere("http://a.test").url, nowhere("https://a.test:8443/x").url], ["ws://a.test/", "wss://a.test:8443/x"]);
  equal(nowhere(new URL("wss://a.test/")).url, "wss://a.test/");
});

check("a URL that is invalid, of another scheme or with a fragment is a SyntaxError", () => {
  for (const url of ["/relative", "", "ws://", "ftp://a.test/", "about:blank", "ws://a.test/#", "https://a.test/#x", "ws://a b/"]) {
    throws("SyntaxError", () => new WebSocket(url));
  }
});

check("subprotocols are tokens, and each may be given once", () => {
  for (const protocols of [["a", "a"], "", "a b", "a,b", "ä", ["ok", "not\tok"], "\u0000", "(a)"]) {
    throws("SyntaxError", () => new WebSocket("ws://127.0.0.1/", protocols));
  }
  for (const protocols of [[], "chat", ["a", "A", "b.c~1"], new Set(["x"])]) nowhere("ws://127.0.0.1/", protocols);
  nowhere("ws://127.0.0.1/", undefined);
});

check("both arguments are converted before the URL is checked, and then the subprotocols", () => {
  const order = [];
  const part = (name, value) => ({ toString: () => (order.push(name), value) });
  throws("SyntaxError", () => new WebSocket(part("url", "nothing"), part("protocols", "a a")), "not an absolute URL");
  equal(order, ["url", "protocols"]);
});

check("send throws before the socket is open", () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  throws("InvalidStateError", () => socket.send("x"));
  throws("TypeError", () => socket.send());
  socket.close();
});

check("closing a socket that is connecting is reported as a failure", async () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  const seen = [];
  for (const type of ["open", "error", "close"]) socket.addEventListener(type, (e) => seen.push([e.type, e.isTrusted, socket.readyState]));
  socket.close();
  equal([socket.readyState, seen], [2, []]);
  const { code, reason, wasClean } = await next(socket, "close");
  equal([code, reason, wasClean], [1006, "", false]);
  equal(seen, [["error", true, 3], ["close", true, 3]]);
});

check("a connection that fails is reported in the same way", async () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  const seen = [];
  socket.onerror = (e) => seen.push(e instanceof Event && e.type);
  socket.onclose = (e) => seen.push(e instanceof CloseEvent && e.code);
  await next(socket, "close");
  equal([seen, socket.readyState], [["error", 1006], 3]);
});

check("messages sent after close are counted and discarded", async () => {
  const socket = nowhere();
  await next(socket, "close");
  socket.send("zwölf");
  socket.send(new Uint16Array(3));
  socket.send(new Blob(["ab"]));
  equal(socket.bufferedAmount, 6 + 6 + 2);
  socket.close();
});

check("a client may close with 1000 or 3000 to 4999, and a reason of up to 123 bytes", () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  for (const code of [0, 999, 1001, 1005, 2999, 5000, 65_536, NaN, "x", -1]) {
    throws("InvalidAccessError", () => socket.close(code));
  }
  throws("SyntaxError", () => socket.close(1000, "x".repeat(124)));
  throws("SyntaxError", () => socket.close(1000, "ä".repeat(62)));
  throws("SyntaxError", () => socket.close(undefined, "x".repeat(124)));
  equal(socket.readyState, 0);
  socket.close(3000.4, "ä".repeat(61));
  equal(socket.readyState, 2);
});

check("binaryType has one of two values, and other values are ignored", () => {
  const socket = nowhere();
  for (const value of ["arraybuffer", "nonsense", "", null]) socket.binaryType = value;
  equal(socket.binaryType, "arraybuffer");
  socket.binaryType = "blob";
  equal(socket.binaryType, "blob");
});

check("a socket opens in a later turn at the earliest", async () => {
  const socket = new WebSocket("ws://127.0.0.1/");
  await undefined;
  equal(socket.readyState, 0);
  socket.close();
});

about("CloseEvent");

check("a CloseEvent has the members that it is created with", () => {
  const event = new CloseEvent("x", { code: 70_000, reason: "why\ud800", wasClean: 1, cancelable: true });
  equal([event.type, event.code, event.reason, event.wasClean, event.cancelable], ["x", 4464, "why\ufffd", true, true]);
  const plain = new CloseEvent("close");
  equal([plain.code, plain.reason, plain.wasClean, plain.isTrusted, plain instanceof Event], [0, "", false, false, true]);
  throws("TypeError", () => new CloseEvent());
});

about("WebSocketPair");

check("a pair has two sockets, by number and in order", () => {
  const sockets = new WebSocketPair();
  equal(Object.keys(sockets), ["0", "1"]);
  equal([sockets[0] instanceof WebSocket, sockets[1] instanceof WebSocket, sockets[0] === sockets[1]], [true, true, false]);
  const { 0: one, 1: other } = sockets;
  equal([one.readyState, other.readyState, one.url, one.binaryType], [1, 1, "", "arraybuffer"]);
});

check("send and close throw before accept, and accept may be called once", () => {
  const [one] = Object.values(new WebSocketPair());
  throws("TypeError", () => one.send("x"), "accept");
  throws("TypeError", () => one.close(), "accept");
  one.accept();
  throws("TypeError", () => one.accept());
  throws("TypeError", () => nowhere().accept());
});

check("messages arrive in order, each in its own turn", async () => {
  const [one, other] = pair();
  const seen = [];
  other.onmessage = (event) => {
    seen.push(event.data);
    queueMicrotask(() => seen.push("after"));
  };
  one.send("a");
  one.send("");
  one.send("\ud800");
  one.send(12);
  one.send(null);
  equal(seen, []);
  await dueTurns();
  await dueTurns();
  equal(seen, ["a", "after", "", "after", "\ufffd", "after", "12", "after", "null", "after"]);
});

check("a message is a trusted MessageEvent", async () => {
  const [one, other] = pair();
  one.send("x");
  const event = await next(other, "message");
  equal([event instanceof MessageEvent, event.isTrusted, event.target === other, event.origin, event.ports],
    [true, true, true, "", []]);
});

check("bytes arrive as a copy, of the type that binaryType selects", async () => {
  const [one, other] = pair();
  const bytes = new Uint8Array([1, 2, 3, 4]);
  one.send(bytes.subarray(1, 3));
  bytes.fill(0);
  const { data } = await next(other, "message");
  equal([data instanceof ArrayBuffer, [...new Uint8Array(data)]], [true, [2, 3]]);
  other.binaryType = "blob";
  one.send(new DataView(new ArrayBuffer(2)));
  const { data: blob } = await next(other, "message");
  equal([blob instanceof Blob, blob.size, blob.type], [true, 2, ""]);
  one.send(new Blob(["text"]));
  equal(await (await next(other, "message")).data.text(), "text");
});

check("messages that are sent before the peer accepts are delivered after it has accepted", async () => {
  const [one, other] = Object.values(new WebSocketPair());
  one.accept();
  one.send("early");
  await dueTurns();
  const heard = next(other, "message");
  other.accept();
  equal((await heard).data, "early");
});

check("both sockets get a close event, with the code and the reason", async () => {
  const [one, other] = pair();
  const ends = Promise.all([next(one, "close"), next(other, "close")]);
  one.close(4001, "enough");
  equal(one.readyState, 2);
  one.send("never");
  one.close(4002);
  const events = await ends;
  for (const { code, reason, wasClean, isTrusted } of events) {
    equal([code, reason, wasClean, isTrusted], [4001, "enough", true, true]);
  }
  equal([one.readyState, other.readyState, one.bufferedAmount], [3, 3, 5]);
});

check("a close without a code is reported as 1005, and a close with only a reason as 1000", async () => {
  const [one, other] = pair();
  one.close();
  equal((await next(other, "close")).code, 1005);
  const [first, second] = pair();
  first.close(undefined, "why");
  const { code, reason } = await next(second, "close");
  equal([code, reason], [1000, "why"]);
});

check("messages sent before a close are delivered before it", async () => {
  const [one, other] = pair();
  const seen = [];
  other.onmessage = ({ data }) => seen.push(data);
  other.onclose = ({ type }) => seen.push(type);
  one.send("1");
  one.send("2");
  one.close();
  await next(one, "close");
  equal(seen, ["1", "2", "close"]);
});

check("both sockets may close in the same turn", async () => {
  const [one, other] = pair();
  one.close(4000);
  other.close(4001);
  const [first, second] = await Promise.all([next(one, "close"), next(other, "close")]);
  equal([first.code, second.code], [4001, 4000]);
});

check("a server may send codes that a client may not, but no reserved codes", () => {
  for (const code of [1000, 1001, 1003, 1008, 1011, 1014, 3000, 4999]) pair()[0].close(code);
  for (const code of [999, 1004, 1005, 1006, 1015, 1016, 2999, 5000]) {
    throws("InvalidAccessError", () => pair()[0].close(code));
  }
});

check("handlers may be set, replaced and removed, and keep their position among the listeners", async () => {
  const [one, other] = pair();
  const seen = [];
  other.onmessage = () => seen.push("replaced");
  other.addEventListener("message", () => seen.push("listener"));
  other.onmessage = () => seen.push("handler");
  one.send("x");
  await dueTurns();
  other.onmessage = null;
  one.send("y");
  await dueTurns();
  equal(seen, ["handler", "listener", "listener"]);
});

about("Response");

check("a response may have a WebSocket, with status 101 and without a body", () => {
  const [client, server] = Object.values(new WebSocketPair());
  server.accept();
  const response = new Response(null, { status: 101, webSocket: client, headers: { a: "b" } });
  equal([response.status, response.webSocket === client, response.body, response.headers.get("a")], [101, true, null, "b"]);
  equal(new Response("x").webSocket, null);
  throws("RangeError", () => new Response(null, { status: 101 }));
  throws("RangeError", () => new Response(null, { webSocket: client }));
  throws("TypeError", () => new Response(null, { status: 101, webSocket: {} }));
  throws("TypeError", () => new Response("x", { status: 101, webSocket: client }));
  throws("TypeError", () => response.clone());
  const again = new Response(null, response);
  equal([again.status, again.webSocket === client], [101, true]);
});
