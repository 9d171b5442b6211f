// Checks of ECDSA and ECDH (Web Cryptography §23, §24), with the examples of RFC 6979, RFC 7515
// §A.3 and NIST, and with OpenSSL's results for keys on each curve.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const bytes = (text) => Uint8Array.fromBase64(text, { alphabet: "base64url" });
const base64 = (buffer) => new Uint8Array(buffer).toBase64({ alphabet: "base64url", omitPadding: true });
const hex = (buffer) => new Uint8Array(buffer).toHex();

// `signatures` are signatures of "data". `shared` is the secret that is derived with the public key
// `other`.
const CURVES = {
  "P-256": {
    x: "vxoE72QB_WoyxDTTMhxC9rORXCeItIERTYudjxr4FjQ",
    y: "G-jSVPkai0kvAnUS6IOSySuM0OiofGFgieLkpokWWpE",
    d: "ACuenGvJ9jucXCVzYxg8XdfD1lH02w9wYgjCbCVnHdc",
    spki: "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEvxoE72QB_WoyxDTTMhxC9rORXCeItIERTYudjxr4FjQb6NJU-RqLSS8CdRLog5LJK4zQ6Kh8YW" +
      "CJ4uSmiRZakQ",
    pkcs8: "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgACuenGvJ9jucXCVzYxg8XdfD1lH02w9wYgjCbCVnHdehRANCAAS_GgTvZAH9aj" +
      "LENNMyHEL2s5FcJ4i0gRFNi52PGvgWNBvo0lT5GotJLwJ1EuiDkskrjNDoqHxhYIni5KaJFlqR",
    other: "BFI7zHvgOkcuHdT41m-pYnKAafwXIeIKVI5589OHIMhHYB1J61K8yDEfRbRgL6waDhtN4kLdMEH_cmVwdj2hcHY",
    compressed: "A78aBO9kAf1qMsQ00zIcQvazkVwniLSBEU2LnY8a-BY0",
    shared: "d48f19c7ab5b851180c3a03442ae363d91506ca646e601e192885e1adef659b8",
    signatures: {
      "SHA-1": "1GdhpcYDNxYzh2wmaFCOmLxla9Vr8pZHgD6v_QnDmqP7OqDO-WKf9xah1PNhsjkRzWwyWF1Mg0OHvEcbyELfCA",
      "SHA-256": "C6nOtuKtdISPpWrg_H9S-2cDftNPosPrn1yJH2SUP5te2ESBl-e1O5H7qAwKcYMvpNh9nFwOtSyfu426EK2srg",
      "SHA-384": "hCrlQb3pVup2ST7qHgMjMw8ZOYa8FWwvobA1Y_J2ae-PW-hsy2eidYjrzSVcyz1kdLpXty3cQEcLDJpT9L5Iqg",
      "SHA-512": "sg8jPO-xAlWDMlLs_VPW59M6JWdXoXhgrS0ZaBBgPzMZXhzo1Zs51AZ0KuvrBdiWi_qFeb1qP9e7AWP8N0uCXg",
    },
  },
  "P-384": {
    x: "cstMeBVy3W6qhA5BeZlmXgSh9yrn06eBe32St6dKcRM3zEHAkaKz56LOixOuB3JZ",
    y: "4-vke4qr7bobhOs7J4lLhNsuyIhnFjtR-LpErKry3bjPSqBXGYI7U7xf2iyZZ_2u",
    d: "ABqdDh5oWHtLXsW4phfcN1rJs3pljosA3Vms9wMB1bOxUhLZePtub3vofYWkNfKn",
    spki: "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEcstMeBVy3W6qhA5BeZlmXgSh9yrn06eBe32St6dKcRM3zEHAkaKz56LOixOuB3JZ4-vke4qr7bobhO" +
      "s7J4lLhNsuyIhnFjtR-LpErKry3bjPSqBXGYI7U7xf2iyZZ_2u",
    pkcs8: "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAAGp0OHmhYe0texbimF9w3WsmzemWOiwDdWaz3AwHVs7FSEtl4-25ve-h9haQ18q" +
      "ehZANiAARyy0x4FXLdbqqEDkF5mWZeBKH3KufTp4F7fZK3p0pxEzfMQcCRorPnos6LE64Hclnj6-R7iqvtuhuE6zsniUuE2y7IiGcWO1H4ukSs" +
      "qvLduM9KoFcZgjtTvF_aLJln_a4",
    other: "BIp3jqtkhDt5G3YpcRoKQKyrPaS7xH4QFM9cSlkrISFihbwZMB15DhUzz86pj-NxAYbiGkeQS0VDb3PoXMWdkTv2W_dTurqTTUoGGBsG2XOpsu" +
      "0H2R6ARITrrOHsCEWi2A",
    compressed: "AnLLTHgVct1uqoQOQXmZZl4Eofcq59OngXt9krenSnETN8xBwJGis-eizosTrgdyWQ",
    shared: "16fac90bc93fa9269516e30573b08409c3fa697444410419f6fd81d73e4e9b56decbca6d613ba875517746141ce6ece3",
    signatures: {
      "SHA-1": "NCd9J5i63Duex3oqnX-Iq0_HgKuHTkJA_Fr8adhzpBPgDpi-afs1gfwQ5YMa0tufzp4LEhec9wZalF_ioCioUG_frh40pPy330nd3NmOy7IMqF" +
        "HVE8gwtjfU8PKMRwBW",
      "SHA-256": "SxDwAkYW2fip1gH-Iotk8nbB7WJoQyVVdIwOr5kOddALN3Z9YUpTCr3Y7s7SJxQ0NLbBTMsZJ4GpvEnN-ypBZxYaW9x4YuWmLbixlWTM7_mRey" +
        "wP1Vn2zzBm4qQhpBZj",
      "SHA-384": "LZCppQOA8I5pTwoZB0dFHiZaS_21YU_IxKm_SQGg_YvQ3MzthDjkzAqSvRyxuqtxGu2np8TkUCVFIg2297HZF3jpsLSX9ORhonKOVI80vnCqU1" +
        "xB5n5m0pm9I2GCkCE9",
      "SHA-512": "RtxHR8Vs6ZzIs3Wfyx6Br2dWD29HBIYa0EBykI8YR3MiMR_k-SEmN9NggB-3XNPFhFcPOJQDy0vdx_vZon0BawMD8RqLAxK6nClLriRmtb44Gy" +
        "krQDJZaQZ_iey_4JDK",
    },
  },
  "P-521": {
    x: "ALBIKvCWSOnaTlRFhnyXuitSoXvgtgRqc8jl8fAE7jk-FldvVIXF6h75r-tH1sXshyBzhdBoHYX1YBab8qk_GUdm",
    y: "AJnVy2T0BOi7wogy0Rt9Q717QDgmATERnsqn3IXT8UQn-C0GVKvhmjKYxxGgid1wEEvzUNFU8GniNlZp2CfVY_5B",
    d: "ADX01JAQjAX9nli1kxr_dE1V0wKDdu6KHKTDz1nYk0E79DxqBjiSRUSiJV331L1pPuGJ9T5H79bdZ03R8I4qi-E1",
    spki: "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAsEgq8JZI6dpOVEWGfJe6K1Khe-C2BGpzyOXx8ATuOT4WV29UhcXqHvmv60fWxeyHIHOF0Ggdhf" +
      "VgFpvyqT8ZR2YAmdXLZPQE6LvCiDLRG31DvXtAOCYBMRGeyqfchdPxRCf4LQZUq-GaMpjHEaCJ3XAQS_NQ0VTwaeI2VmnYJ9Vj_kE",
    pkcs8: "MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIANfTUkBCMBf2eWLWTGv90TVXTAoN27oocpMPPWdiTQTv0PGoGOJJFRKIlXffUvW" +
      "k-4Yn1Pkfv1t1nTdHwjiqL4TWhgYkDgYYABACwSCrwlkjp2k5URYZ8l7orUqF74LYEanPI5fHwBO45PhZXb1SFxeoe-a_rR9bF7Icgc4XQaB2F" +
      "9WAWm_KpPxlHZgCZ1ctk9ATou8KIMtEbfUO9e0A4JgExEZ7Kp9yF0_FEJ_gtBlSr4ZoymMcRoIndcBBL81DRVPBp4jZWadgn1WP-QQ",
    other: "BACog022LfsEwHqhslNgXt0qLxyz8rvQgp0pk9Hd99tstKzp9EtXNbuqXfdoUTWjtI5Rs7mq-8qFFk-EmPNKLvnwdAEoky3566ExyyJX6rhts4" +
      "ZpLHWzeUZXjQljYYnOWreeIDJhUxky5UkxqCRfsBLpF3cx3gIw5VGXyy33S4I_Er6dWw",
    compressed: "AwCwSCrwlkjp2k5URYZ8l7orUqF74LYEanPI5fHwBO45PhZXb1SFxeoe-a_rR9bF7Icgc4XQaB2F9WAWm_KpPxlHZg",
    shared: "012234e8a67d3a1191946c171816635cd29c389b3ad8b3922bf59788af3dd8520f7b080a0c11630b3a87c02369cd72911557f907f4d48c" +
      "8f6dc540eb5bac447bcb48",
    signatures: {
      "SHA-1": "ABOpE9N0itqgaTPT-GUGCdyb7FXh3eb2SClgImqVeEGTQOvZflGR227RybWc435oB3YkWA88V8UQqoD1ID_oR4euATN7KGvfaEhtM492IzniVW" +
        "7MOnYuk5iIULXDg6cDjdtuDo4y2LzgLaMAbBpfoe1wraYVvBPyB2bLglT83WWCfjM-",
      "SHA-256": "AI5ZUJ02Yzy9DnMbwkh5QXlxG3GJPqeD6vBwrvzYQN8pXSkKSPAeCzfXlwVXm_cCW3vyXif4ww6TgHFx91nuy-iWAZ7ShVwGa_GbdbG2hEzRAY" +
        "_8zAqSdx6RJY1ZTwzKBEHoT8WtMG91yUsdVQGz1JfiQD9unhDRDJDopNuTUn-BPxTh",
      "SHA-384": "ABDV-nA4OSlNWXgnZVDL0nIyXVXGehsWjpK84jrp2wFfjN6ryfSt-5iSFeMANaP5lPJHq6c1KHoCzqfcYpQS8Lr4APYKXOY07v5Qb9o_jETNUO" +
        "RfBTTPhb7BA2h07A5GutkP1eZ4B5aLTq3uSuGfx3fJzT_WgRnaKG6-aN4JHskcGphr",
      "SHA-512": "ATnss_oeEghwBgzsZqrBR57E9wYtpa6XnJUqRo0Cm-NO6qn1UVJ9xL1v24AQxU0vjkEtgAMRdRiqc5Zwcfk0mPowAM-TfuSK2QNI2K4k08wPe2" +
        "JzRssjdj4vo85rnefyVnIbQYjpu8qAxugsFl7nFDzheEiThhYwantv9nc0avd8YK_r",
    },
  },
};
const HASHES = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
const sizes = { "P-256": 32, "P-384": 48, "P-521": 66 };
const each = async (run) => {
  for (const [namedCurve, key] of Object.entries(CURVES)) await run(namedCurve, key);
};
const point = ({ x, y }) => new Uint8Array([4, ...bytes(x), ...bytes(y)]);

about("SubtleCrypto: ECDSA, ECDH");

check("the signatures of RFC 6979 are verified", async () => {
  const raw = Uint8Array.fromHex("0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb67903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299");
  const key = await subtle.importKey("raw", raw, { name: "ECDSA", namedCurve: "P-256" }, true, ["verify"]);
  const signatures = {
    "SHA-1": "61340c88c3aaebeb4f6d667f672ca9759a6ccaa9fa8811313039ee4a35471d326d7f147dac089441bb2e2fe8f7a3fa264b9c475098fdcf6e00d7c996e1b8b7eb",
    "SHA-256": "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    "SHA-384": "0eafea039b20e9b42309fb1d89e213057cbf973dc0cfc8f129edddc800ef77194861f0491e6998b9455193e34e7b0d284ddd7149a74b95b9261f13abde940954",
    "SHA-512": "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f002362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe",
  };
  for (const [hash, signature] of Object.entries(signatures)) {
    equal(await subtle.verify({ name: "ECDSA", hash }, key, Uint8Array.fromHex(signature), text("sample")), true, hash);
    equal(await subtle.verify({ name: "ECDSA", hash }, key, Uint8Array.fromHex(signature), text("Sample")), false);
  }
});

check("the JSON Web Signature of RFC 7515 is verified", async () => {
  const jwk = { kty: "EC", crv: "P-256", x: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" };
  const input = text("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ");
  const signature = bytes("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q");
  const key = await subtle.importKey("jwk", jwk, { name: "ECDSA", namedCurve: "P-256" }, true, ["verify"]);
  equal(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, signature, input), true);
});

check("signatures of another implementation are verified, with every hash", async () => {
  await each(async (namedCurve, { spki, signatures }) => {
    const key = await subtle.importKey("spki", bytes(spki), { name: "ECDSA", namedCurve }, true, ["verify"]);
    for (const hash of HASHES) {
      equal(await subtle.verify({ name: "ECDSA", hash }, key, bytes(signatures[hash]), text("data")), true, `${namedCurve} ${hash}`);
    }
    equal(await subtle.verify({ name: "ECDSA", hash: "SHA-1" }, key, bytes(signatures["SHA-256"]), text("data")), false);
  });
});

check("only the signed data is verified", async () => {
  await each(async (namedCurve) => {
    const { privateKey, publicKey } = await subtle.generateKey({ name: "ECDSA", namedCurve }, false, ["sign", "verify"]);
    equal([privateKey.type, privateKey.extractable, privateKey.usages], ["private", false, ["sign"]]);
    equal([publicKey.type, publicKey.extractable, publicKey.usages, publicKey.algorithm], ["public", true, ["verify"], { name: "ECDSA", namedCurve }]);
    for (const hash of HASHES) {
      const algorithm = { name: "ECDSA", hash };
      const signature = new Uint8Array(await subtle.sign(algorithm, privateKey, text("data")));
      equal([signature.length, await subtle.verify(algorithm, publicKey, signature, text("data"))], [2 * sizes[namedCurve], true]);
      equal(await subtle.verify(algorithm, publicKey, signature, text("Data")), false);
      for (const other of [signature.slice(1), new Uint8Array(0), new Uint8Array(signature.length), new Uint8Array([...signature, 0])]) {
        equal(await subtle.verify(algorithm, publicKey, other, text("data")), false);
      }
    }
    await rejects("InvalidAccessError", subtle.sign({ name: "ECDSA", hash: "SHA-256" }, publicKey, text("data")));
    await rejects("TypeError", subtle.sign("ECDSA", privateKey, text("data")), "'hash'");
  });
});

check("ECDH derives the secrets of NIST and of another implementation", async () => {
  const raw = Uint8Array.fromHex("04700c48f77f56584c5cc632ca65640db91b6bacce3a4df6b42ce7cc838833d287db71e509e3fd9b060ddb20ba5c51dcc5948d46fbf640dfe0441782cab85fa4ac");
  const their = await subtle.importKey("raw", raw, { name: "ECDH", namedCurve: "P-256" }, true, []);
  const jwk = {
    kty: "EC", crv: "P-256", d: base64(Uint8Array.fromHex("7d7dc5f71eb29ddaf80d6214632eeae03d9058af1fb6d22ed80badb62bc1a534")),
    x: base64(Uint8Array.fromHex("ead218590119e8876b29146ff89ca61770c4edbbf97d38ce385ed281d8a6b230")),
    y: base64(Uint8Array.fromHex("28af61281fd35e2fa7002523acc85a429cb06ee6648325389f59edfce1405141")),
  };
  const own = await subtle.importKey("jwk", jwk, { name: "ECDH", namedCurve: "P-256" }, false, ["deriveBits"]);
  equal(hex(await subtle.deriveBits({ name: "ECDH", public: their }, own, 256)), "46fc62106420ff012e54a434fbdd2d25ccc5852060561e68040dd7778997bd7b");
  await each(async (namedCurve, { pkcs8, other, shared }) => {
    const key = await subtle.importKey("pkcs8", bytes(pkcs8), { name: "ECDH", namedCurve }, true, ["deriveBits", "deriveKey"]);
    const algorithm = { name: "ECDH", public: await subtle.importKey("raw", bytes(other), { name: "ECDH", namedCurve }, true, []) };
    equal([hex(await subtle.deriveBits(algorithm, key, null)), hex(await subtle.deriveBits(algorithm, key))], [shared, shared]);
    equal(hex(await subtle.deriveBits(algorithm, key, 128)), shared.slice(0, 32));
    const odd = new Uint8Array(await subtle.deriveBits(algorithm, key, 13));
    equal([odd.length, odd[0], odd[1]], [2, parseInt(shared.slice(0, 2), 16), parseInt(shared.slice(2, 4), 16) & 0xf8]);
    equal((await subtle.deriveBits(algorithm, key, 0)).byteLength, 0);
    await rejects("OperationError", subtle.deriveBits(algorithm, key, sizes[namedCurve] * 8 + 1), "bits");
    await rejects("OperationError", subtle.deriveBits(algorithm, key, 2 ** 32 - 1));
    const aes = await subtle.deriveKey(algorithm, key, { name: "AES-GCM", length: 256 }, true, ["encrypt"]);
    equal(hex(await subtle.exportKey("raw", aes)), shared.slice(0, 64));
    const hkdf = await subtle.deriveKey(algorithm, key, "HKDF", false, ["deriveBits"]);
    equal((await subtle.deriveBits({ name: "HKDF", hash: "SHA-1", salt: text(""), info: text("") }, hkdf, 64)).byteLength, 8);
  });
});

check("ECDH takes a private key, and a public key of the same algorithm and curve", async () => {
  const usages = ["deriveBits"];
  const own = await subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, usages);
  equal([own.privateKey.usages, own.publicKey.usages], [usages, []]);
  const others = await subtle.generateKey({ name: "ECDH", namedCurve: "P-384" }, true, usages);
  const signing = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  for (const other of [own.privateKey, others.publicKey, signing.publicKey]) {
    await rejects("InvalidAccessError", subtle.deriveBits({ name: "ECDH", public: other }, own.privateKey, 256));
  }
  await rejects("InvalidAccessError", subtle.deriveBits({ name: "ECDH", public: own.publicKey }, own.publicKey, 256));
  for (const other of [undefined, null, {}, new Uint8Array(65)]) {
    await rejects("TypeError", subtle.deriveBits({ name: "ECDH", public: other }, own.privateKey, 256));
  }
});

check("keys are exported as they were imported", async () => {
  for (const [name, privateUsages, publicUsages] of [["ECDSA", ["sign"], ["verify"]], ["ECDH", ["deriveKey", "deriveBits"], []]]) {
    await each(async (namedCurve, { x, y, d, spki, pkcs8 }) => {
      const algorithm = { name, namedCurve };
      const jwk = { kty: "EC", crv: namedCurve, x, y, d };
      const key = await subtle.importKey("pkcs8", bytes(pkcs8), algorithm, true, privateUsages);
      const publicKey = await subtle.importKey("spki", bytes(spki), algorithm, true, publicUsages);
      equal([base64(await subtle.exportKey("pkcs8", key)), base64(await subtle.exportKey("spki", publicKey))], [pkcs8, spki]);
      equal(await subtle.exportKey("jwk", key), { ...jwk, key_ops: privateUsages, ext: true });
      equal(await subtle.exportKey("jwk", publicKey), { kty: "EC", crv: namedCurve, x, y, key_ops: publicUsages, ext: true });
      equal(base64(await subtle.exportKey("raw", publicKey)), base64(point({ x, y })));
      equal(base64(await subtle.exportKey("pkcs8", await subtle.importKey("jwk", jwk, algorithm, true, privateUsages))), pkcs8);
      equal(base64(await subtle.exportKey("spki", await subtle.importKey("raw", point({ x, y }), algorithm, true, publicUsages))), spki);
      await rejects("InvalidAccessError", subtle.exportKey("raw", key));
      await rejects("InvalidAccessError", subtle.exportKey("spki", key));
      await rejects("InvalidAccessError", subtle.exportKey("pkcs8", publicKey));
      await rejects("SyntaxError", subtle.importKey("pkcs8", bytes(pkcs8), algorithm, true, ["verify"]));
      await rejects("SyntaxError", subtle.importKey("raw", point({ x, y }), algorithm, true, privateUsages));
      await rejects("SyntaxError", subtle.importKey("jwk", jwk, algorithm, true, ["verify"]));
      await rejects("SyntaxError", subtle.importKey("jwk", { ...jwk, d: undefined }, algorithm, true, privateUsages));
      await rejects("SyntaxError", subtle.importKey("pkcs8", bytes(pkcs8), algorithm, true, []));
    });
  }
});

check("key data that is invalid for the curve is a DataError", async () => {
  await each(async (namedCurve, { x, y, spki, pkcs8, compressed }) => {
    const algorithm = { name: "ECDSA", namedCurve };
    const right = point({ x, y });
    const off = right.slice();
    off[off.length - 1] ^= 1;
    for (const raw of [off, right.slice(1), new Uint8Array([...right, 0]), new Uint8Array(1), new Uint8Array(0), bytes(compressed), new Uint8Array(right.length).fill(4)]) {
      await rejects("DataError", subtle.importKey("raw", raw, algorithm, true, ["verify"]));
    }
    for (const data of [bytes(spki).slice(1), bytes(pkcs8), new Uint8Array([...bytes(spki), 0]), bytes(spki).fill(0, 26)]) {
      await rejects("DataError", subtle.importKey("spki", data, algorithm, true, ["verify"]));
    }
    const zero = bytes(pkcs8);
    zero.fill(0, zero.length - 2 * sizes[namedCurve] - 20, zero.length - 2 * sizes[namedCurve]);
    for (const data of [bytes(spki), bytes(pkcs8).slice(0, -1), zero]) {
      await rejects("DataError", subtle.importKey("pkcs8", data, algorithm, true, ["sign"]));
    }
    for (const other of Object.keys(CURVES)) {
      if (other === namedCurve) continue;
      await rejects("DataError", subtle.importKey("spki", bytes(spki), { name: "ECDSA", namedCurve: other }, true, ["verify"]));
      await rejects("DataError", subtle.importKey("pkcs8", bytes(pkcs8), { name: "ECDSA", namedCurve: other }, true, ["sign"]));
      await rejects("DataError", subtle.importKey("raw", right, { name: "ECDSA", namedCurve: other }, true, ["verify"]));
    }
  });
});

check("a JSON Web Key must match the requested algorithm, usages and extractability", async () => {
  const { x, y, d } = CURVES["P-256"];
  const wanted = (change, usages = ["sign"], extractable = true, name = "ECDSA", namedCurve = "P-256") =>
    subtle.importKey("jwk", { kty: "EC", crv: "P-256", x, y, d, ...change }, { name, namedCurve }, extractable, usages);
  equal((await wanted({ alg: "ES256", use: "sig", key_ops: ["sign"], ext: true })).type, "private");
  equal((await wanted({ alg: "whatever", use: "enc" }, ["deriveBits"], true, "ECDH")).type, "private");
  for (const change of [
    { kty: "RSA" }, { kty: undefined }, { crv: "P-384" }, { crv: "p-256" }, { crv: undefined }, { x: undefined }, { y: undefined }, { x: y }, { x: x + "AA" }, { x: "" },
    { d: "" }, { d: d + "AA" }, { d: "A".repeat(43) }, { d: x }, { alg: "ES384" }, { use: "enc" }, { key_ops: ["verify"] }, { ext: false },
  ]) await rejects("DataError", wanted(change));
  await rejects("DataError", wanted({ use: "sig" }, ["deriveBits"], true, "ECDH"));
  await rejects("DataError", wanted({}, ["sign"], true, "ECDSA", "P-384"));
});

check("the error for another curve names the supported ones", async () => {
  for (const namedCurve of ["P-224", "secp256k1", "p-256", "", "Ed25519"]) {
    await rejects("NotSupportedError", subtle.generateKey({ name: "ECDSA", namedCurve }, true, ["sign"]), "P-521");
    await rejects("NotSupportedError", subtle.importKey("raw", new Uint8Array(65), { name: "ECDH", namedCurve }, true, []));
  }
  await rejects("TypeError", subtle.generateKey("ECDSA", true, ["sign"]), "'namedCurve'");
  await rejects("SyntaxError", subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["deriveBits"]));
  await rejects("SyntaxError", subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["verify"]));
  await rejects("SyntaxError", subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, []));
});

check("private keys are wrapped by a cipher and unwrapped in every format", async () => {
  const gcm = { name: "AES-GCM", iv: new Uint8Array(12) };
  const wrapping = await subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["wrapKey", "unwrapKey"]);
  await each(async (namedCurve, { pkcs8 }) => {
    const algorithm = { name: "ECDSA", namedCurve };
    const key = await subtle.importKey("pkcs8", bytes(pkcs8), algorithm, true, ["sign"]);
    for (const format of ["pkcs8", "jwk"]) {
      const wrapped = await subtle.wrapKey(format, key, wrapping, gcm);
      const back = await subtle.unwrapKey(format, wrapped, wrapping, gcm, algorithm, true, ["sign"]);
      equal(base64(await subtle.exportKey("pkcs8", back)), pkcs8);
    }
  });
});
