// Checks of cloudflare:sockets (the documentation of Cloudflare Workers, TCP sockets) that need no
// server; `runtime-node/tests/fetch/tcp` has the rest.

import { connect } from "cloudflare:sockets";
import * as everything from "cloudflare:sockets";

import { about, check, equal, rejects, throws } from "../check.js";

export { default } from "../check.js";

/** Returns a socket to an address that is refused. */
const nowhere = (options) => connect("127.0.0.1:5432", options);

about("connect");

check("the module exports connect", () => {
  equal(Object.keys(everything).sort(), ["connect", "default"]);
  equal([everything.default.connect === connect, connect.length], [true, 1]);
});

check("an address is a host and a port, or an object with both", async () => {
  for (const address of [
    "127.0.0.1:80", "[::1]:80", "localhost:80", { hostname: "127.0.0.1", port: 80 }, { hostname: "::1", port: "80" },
    { hostname: "[::1]", port: 80 },
  ]) {
    await rejects("Error", connect(address).opened, "--egress-allow", String(address));
  }
});

check("an address that is malformed is a TypeError", () => {
  throws("TypeError", () => connect());
  for (const address of [
    "", "a.test", "a.test:", ":80", "a.test:x", "a.test:-1", "a.test:80:80", "::1:80", "https://a.test:80", "a.test:80/",
    "a b:80", "a@b:80", "a.test:0", "a.test:65536", `${"a".repeat(300)}:80`, null, 80, {}, { hostname: "a.test" },
    { port: 80 }, { hostname: "", port: 80 }, { hostname: "a.test", port: 0 }, { hostname: "a.test", port: 65536 },
    { hostname: "a.test", port: NaN }, { hostname: "a.test:80", port: 80 }, { hostname: "a/b", port: 80 },
  ]) {
    throws("TypeError", () => connect(address));
  }
});

check("an option that is malformed is a TypeError", () => {
  for (const options of [
    1, "on", { secureTransport: "tls" }, { secureTransport: null }, { highWaterMark: -1 }, { highWaterMark: NaN },
  ]) {
    throws("TypeError", () => nowhere(options));
  }
});

check("options are read once, in alphabetical order", () => {
  const read = [];
  nowhere(new Proxy({}, { get: (_, name) => void read.push(name) }));
  equal(read, ["allowHalfOpen", "highWaterMark", "secureTransport"]);
});

about("Socket");

check("a socket has two streams and two promises, which stay the same", () => {
  const socket = nowhere();
  equal([socket.readable instanceof ReadableStream, socket.writable instanceof WritableStream], [true, true]);
  equal([socket.opened instanceof Promise, socket.closed instanceof Promise], [true, true]);
  for (const name of ["readable", "writable", "opened", "closed"]) equal(socket[name] === socket[name], true, name);
  equal([socket.upgraded, socket.secureTransport, String(socket)], [false, "off", "[object Socket]"]);
  equal(nowhere({ secureTransport: "starttls" }).secureTransport, "starttls");
  equal(nowhere({ secureTransport: "on" }).secureTransport, "on");
});

check("only connect creates a socket, and its members check their receiver", () => {
  const { constructor: Socket } = nowhere();
  throws("TypeError", () => new Socket());
  for (const name of ["readable", "writable", "opened", "closed", "upgraded", "secureTransport"]) {
    const { get } = Object.getOwnPropertyDescriptor(Socket.prototype, name);
    throws("TypeError", () => get.call({}));
  }
  throws("TypeError", () => Socket.prototype.startTls.call({}));
});

check("close rejects a receiver of another type", () =>
  rejects("TypeError", nowhere().close.call({})));

check("the readable side of a socket is a byte stream", () => {
  equal(nowhere().readable.getReader({ mode: "byob" }) instanceof ReadableStreamBYOBReader, true);
});

check("a refusal rejects opened, closed, a read and a write with the same error", async () => {
  const socket = nowhere();
  const reading = socket.readable.getReader().read();
  const writing = socket.writable.getWriter().write(new Uint8Array(1));
  const error = await rejects("Error", socket.opened, "connect failed: 127.0.0.1 is a loopback address");
  equal(error.cause.stage, "policy");
  for (const promise of [socket.closed, reading, writing]) equal(await promise.catch((reason) => reason === error), true);
});

check("close settles after a refusal, and may be called again", async () => {
  const socket = nowhere();
  equal([await socket.close(), await socket.close()], [undefined, undefined]);
  await rejects("Error", socket.closed);
});

check("a refusal is not an unhandled rejection", async () => {
  let unhandled = 0;
  const count = () => unhandled++;
  addEventListener("unhandledrejection", count);
  nowhere();
  nowhere({ secureTransport: "starttls" }).startTls();
  await scheduler.wait(10);
  removeEventListener("unhandledrejection", count);
  equal(unhandled, 0);
});

check("the port of mail delivery is refused", () =>
  rejects("Error", connect("mail.example.com:25").opened, "465 or 587"));

check("startTls needs the option starttls, and can be called once", async () => {
  throws("TypeError", () => nowhere().startTls(), "starttls");
  throws("TypeError", () => nowhere({ secureTransport: "on" }).startTls(), "already uses TLS");
  const socket = nowhere({ secureTransport: "starttls" });
  const upgraded = socket.startTls();
  equal([upgraded !== socket, upgraded.secureTransport, socket.secureTransport], [true, "on", "starttls"]);
  throws("TypeError", () => socket.startTls(), "already been started");
  throws("TypeError", () => upgraded.startTls(), "already uses TLS");
  await rejects("Error", upgraded.opened, "loopback");
  await rejects("Error", upgraded.closed, "loopback");
  equal([socket.upgraded, upgraded.upgraded], [false, false]);
});

check("startTls after close is a TypeError", () => {
  const closed = nowhere({ secureTransport: "starttls" });
  closed.close();
  throws("TypeError", () => closed.startTls(), "closed");
  const finished = nowhere({ secureTransport: "starttls" });
  finished.writable.close().catch(() => {});
  throws("TypeError", () => finished.startTls(), "closed");
});
