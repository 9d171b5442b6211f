// Checks of hashes (Web Cryptography §32), with the examples of FIPS 180-4 and of NIST's vectors;
// and checks of the steps for algorithms and data that all methods of SubtleCrypto share.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const ABC = {
  "SHA-1": "a9993e364706816aba3e25717850c26c9cd0d89d",
  "SHA-256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  "SHA-384": "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
  "SHA-512": "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
};
const EMPTY = {
  "SHA-1": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
  "SHA-256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "SHA-384": "38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
  "SHA-512": "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
};
// A million times the letter a.
const MILLION = {
  "SHA-1": "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
  "SHA-256": "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
  "SHA-384": "9d0e1809716474cb086e834e310a4a1ced149e9c00f248527972cec5704c2a5b07b8b3dc38ecc4ebae97ddd87f3d8985",
  "SHA-512": "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973ebde0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
};

// 16 MiB of the letter a, which are hashed in several steps.
const MANY = {
  "SHA-1": "a53c12e523142dd3937c8f24b94c158420b1bde8",
  "SHA-256": "5b6ff2e19d0da0fe323061018fc381393492884e74af8296c81ab9cb2694783a",
  "SHA-384": "a75157c540ad44b0a4d53ab45a87b94436106e3b29888d7241ffc3d29418ca073455884beda5f82a748c8125b8566fa9",
  "SHA-512": "e1ab96c0cd3144914435e087a669db46b1d242b84572ecd2099c8e2ee516b849fdfc441a4c5c1d436c121c212b091942c839ab78aca036675d71228be7a5162c",
};

about("SubtleCrypto: SHA");

check("hashes match the standard", async () => {
  for (const name of Object.keys(ABC)) {
    equal(hex(await subtle.digest(name, text("abc"))), ABC[name], name);
    equal(hex(await subtle.digest(name, new ArrayBuffer(0))), EMPTY[name], name);
    equal(hex(await subtle.digest({ name }, new Uint8Array(1_000_000).fill(97))), MILLION[name], name);
  }
});

check("data is hashed as it was when digest was called", async () => {
  for (const name of Object.keys(MANY)) {
    const data = new Uint8Array(16 << 20).fill(97);
    const digest = subtle.digest(name, data);
    data.fill(98);
    equal(hex(await digest), MANY[name], name);
  }
});

check("digest returns an ArrayBuffer", async () => {
  const digest = await subtle.digest("SHA-256", text("abc"));
  equal([digest instanceof ArrayBuffer, digest.byteLength], [true, 32]);
});

check("names of algorithms are case-insensitive", async () => {
  equal(hex(await subtle.digest("sha-256", text("abc"))), ABC["SHA-256"]);
  equal(hex(await subtle.digest({ name: "Sha-1" }, text("abc"))), ABC["SHA-1"]);
});

check("only ASCII letters match case-insensitively", async () => {
  await rejects("NotSupportedError", subtle.digest("\u017fha-256", text("abc")));
  await rejects("NotSupportedError", subtle.generateKey({ name: "AES-\u212aW", length: 128 }, true, ["wrapKey"]));
});

check("the error for an unsupported algorithm names the supported ones", async () => {
  await rejects("NotSupportedError", subtle.digest("AES-GCM", text("abc")), "SHA-256");
  await rejects("NotSupportedError", subtle.digest("MD5", text("abc")));
  await rejects("NotSupportedError", subtle.digest("", text("abc")));
  await rejects("NotSupportedError", subtle.digest(undefined, text("abc")));
});

check("an algorithm without a name is a TypeError", async () => {
  await rejects("TypeError", subtle.digest({}, text("abc")));
  await rejects("TypeError", subtle.digest({ name: undefined }, text("abc")));
});

check("data is an ArrayBuffer or any view of one", async () => {
  const buffer = text("xabcx").buffer;
  for (const view of [new Uint8Array(buffer, 1, 3), new DataView(buffer, 1, 3), new Int8Array(buffer, 1, 3)]) {
    equal(hex(await subtle.digest("SHA-1", view)), ABC["SHA-1"]);
  }
  for (const data of ["abc", [97, 98, 99], null, undefined, 1, {}, { byteLength: 3 }]) {
    await rejects("TypeError", subtle.digest("SHA-1", data));
  }
});

check("errors are always rejections", async () => {
  await rejects("TypeError", subtle.digest());
  await rejects("TypeError", subtle.digest("SHA-1"), "2 arguments required");
  await rejects("TypeError", SubtleCrypto.prototype.digest.call({}, "SHA-1", text("abc")));
  await rejects("RangeError", subtle.digest({ get name() { throw new RangeError("of the getter"); } }, text("abc")));
});

check("data is copied as soon as the algorithm has been read", async () => {
  const data = text("xbc");
  const digest = subtle.digest({ get name() { data[0] = 97; return "SHA-256"; } }, data);
  data.fill(0);
  equal(hex(await digest), ABC["SHA-256"]);
  const large = new Uint8Array(1_000_000).fill(97);
  const later = subtle.digest("SHA-1", large);
  large.fill(0);
  equal(hex(await later), MILLION["SHA-1"]);
});

check("a buffer that is detached while the algorithm is read is empty", async () => {
  for (const make of [(buffer) => buffer, (buffer) => new Uint8Array(buffer), (buffer) => new DataView(buffer)]) {
    const buffer = text("abc").buffer;
    const digest = subtle.digest({ get name() { buffer.transfer(); return "SHA-256"; } }, make(buffer));
    equal(hex(await digest), EMPTY["SHA-256"]);
  }
});
