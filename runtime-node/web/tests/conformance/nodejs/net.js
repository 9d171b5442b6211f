// Checks of node:net, node:tls and node:dns as far as they need no server;
// `runtime-node/tests/fetch/tcp/nodejs.rs` has the rest.

import dns, { lookup, promises } from "node:dns";
import * as dnsPromises from "node:dns/promises";
import { once } from "node:events";
import net, { Socket, Stream, connect, createConnection, isIP, isIPv4, isIPv6 } from "node:net";
import { Duplex } from "node:stream";
import tls, { TLSSocket } from "node:tls";
import { promisify } from "node:util";

import { about, check, equal, rejects, throws } from "../check.js";

export { default } from "../check.js";

about("node:net");

check("isIP recognizes addresses of both families", () => {
  for (const four of ["0.0.0.0", "127.0.0.1", "255.255.255.255", "1.20.33.4"]) equal([isIP(four), isIPv4(four), isIPv6(four)], [4, true, false], four);
  for (const six of [
    "::", "::1", "1::", "1:2:3:4:5:6:7:8", "2001:db8::8:800:200C:417A", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4",
    "1:2:3:4:5:6:1.2.3.4", "1::8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "fe80::1%eth0", "FE80::A%1.2-3",
  ]) equal([isIP(six), isIPv4(six), isIPv6(six)], [6, false, true], six);
});

check("isIP returns 0 for other values", () => {
  for (const other of [
    "", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", "1..2.3", "0x7f.1.1.1", "a.b.c.d", ":", ":::", "1:2",
    "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "::1::", "12345::", "g::", "1.2.3.4::", "::1.2.3", "fe80::1%", "::%a b", "[::1]",
    "1:2:3:4:5:6:7:1.2.3.4", "x".repeat(1000), undefined, null, 1, {}, [],
  ]) equal([isIP(other), isIPv4(other), isIPv6(other)], [0, false, false], `${other}`);
  equal(isIP(["127.0.0.1"]), 4);
});

check("a Socket is a Duplex, also without new", () => {
  equal([net.Socket === Socket, Stream === Socket, createConnection === connect], [true, true, true]);
  const socket = Socket();
  equal([socket instanceof Socket, socket instanceof Duplex, new Socket({ allowHalfOpen: true }).allowHalfOpen], [true, true, true]);
  equal([socket.allowHalfOpen, socket.connecting, socket.pending, socket.readyState, socket.destroyed], [false, false, true, "open", false]);
  equal([socket.remoteAddress, socket.remotePort, socket.localAddress, socket.address()], [undefined, undefined, undefined, {}]);
  equal([socket.bytesRead, socket.bytesWritten, socket.timeout], [0, 0, undefined]);
  socket.setTimeout(3000);
  equal(socket.timeout, 3000);
  throws("TypeError", () => socket.setTimeout("1"));
  throws("RangeError", () => socket.setTimeout(-1));
  socket.destroy();
});

check("a Worker cannot listen, and has no paths or file descriptors", () => {
  for (const attempt of [
    () => net.createServer(), () => new net.Server(), () => tls.createServer(), () => new tls.Server(), () => net.connect("/tmp/socket"),
    () => net.connect({ path: "/tmp/socket" }), () => new Socket({ fd: 3 }), () => new Socket(3),
  ]) equal(throws("Error", attempt).code, "ERR_METHOD_NOT_IMPLEMENTED", `${attempt}`);
});

check("a refused connection is an error with a code, and then a close", async () => {
  const socket = connect(5432, "127.0.0.1");
  const closed = new Promise((resolve) => socket.on("close", resolve));
  const [error] = await once(socket, "error");
  equal([error.code, error.address, error.port, error.syscall], ["EACCES", "127.0.0.1", 5432, "connect"]);
  equal([await closed, socket.destroyed], [true, true]);
  const [unreachable] = await once(connect(0, "127.0.0.1"), "error");
  equal([unreachable.name, unreachable.message.includes("0 is not a port")], ["TypeError", true]);
  throws("Error", () => {
    const twice = new Socket().on("error", () => {});
    twice.connect(1, "127.0.0.1");
    twice.connect(1, "127.0.0.1");
  }, "already connecting");
});

about("node:tls");

check("tls has the classes and constants that clients use", () => {
  equal([new TLSSocket() instanceof Socket, tls.createSecureContext() instanceof tls.SecureContext], [true, true]);
  equal([tls.DEFAULT_MIN_VERSION, tls.DEFAULT_MAX_VERSION, tls.rootCertificates], ["TLSv1.2", "TLSv1.3", []]);
  equal(tls.checkServerIdentity("a.test", {}), undefined);
  const socket = new TLSSocket();
  equal([socket.encrypted, socket.authorized, socket.getPeerCertificate(), socket.getProtocol()], [true, false, {}, null]);
});

check("options that weaken the verification or need a key are refused", () => {
  for (const options of [{ rejectUnauthorized: false }, { cert: "x" }, { key: "x" }, { pfx: "x" }, { ALPNProtocols: ["h2"] }, { isServer: true }]) {
    equal(throws("Error", () => tls.connect({ port: 1, ...options })).code, "ERR_METHOD_NOT_IMPLEMENTED");
    throws("Error", () => tls.createSecureContext(options));
  }
  throws("TypeError", () => tls.connect({ port: 1, ca: {} }));
});

about("node:dns");

check("an address resolves to itself", async () => {
  equal(dnsPromises.default === promises && dns.promises === promises, true);
  equal(await promises.lookup("192.0.2.1"), { address: "192.0.2.1", family: 4 });
  equal(await promises.lookup("::1", { all: true }), [{ address: "::1", family: 6 }]);
  equal(await new Promise((resolve) => lookup("::1", 6, (...results) => resolve(results))), [null, "::1", 6]);
  equal(await promisify(dns.resolve6)("::1"), ["::1"]);
  equal((await rejects("Error", promises.lookup("::1", { family: 4 }))).code, "ENOTFOUND");
});

check("an error has a code", async () => {
  equal((await rejects("Error", promises.lookup("localhost"))).code, "EREFUSED");
  equal((await rejects("Error", promises.resolve4("no host"))).code, "ENOTFOUND");
  equal((await rejects("Error", promises.resolve4("unknown.test"), "queryA ENOTFOUND unknown.test")).hostname, "unknown.test");
  equal((await rejects("Error", promises.resolveMx("a.test"))).code, "ENOTIMP");
  equal((await new Promise((resolve) => dns.resolve("a.test", "TXT", resolve))).code, "ENOTIMP");
  throws("TypeError", () => lookup("a.test"));
  throws("TypeError", () => lookup(1, () => {}));
});

check("nothing is resolved without a callback", () => {
  let isRead = false;
  const options = { get family() { isRead = true; return 0; } };
  throws("TypeError", () => lookup("a.test", options), "callback");
  for (const name of ["resolve", "resolve4", "resolveMx"]) throws("TypeError", () => dns[name]("a.test"), "callback");
  equal(isRead, false);
});

check("an address has a time to live of zero", async () => {
  equal(await promises.resolve4("192.0.2.1", { ttl: true }), [{ address: "192.0.2.1", ttl: 0 }]);
  equal(await promisify(dns.resolve6)("::1", { ttl: true }), [{ address: "::1", ttl: 0 }]);
  equal(await promises.resolve4("192.0.2.1", { ttl: false }), ["192.0.2.1"]);
});
