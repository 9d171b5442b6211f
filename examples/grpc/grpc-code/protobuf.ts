// The part of Protocol Buffers that greeter.proto needs: fields of strings and numbers. A service
// with many messages uses a package such as @bufbuild/protobuf instead.

export type Value = string | number;

const VARINT = 0;
const BYTES = 2;
/** The sizes of values with a fixed size, by their type. */
const FIXED: Record<number, number> = { 1: 8, 5: 4 };

/** Encodes fields by their numbers. Empty strings and zeros are the defaults, and are left out. */
export function encode(fields: Record<number, Value>): Uint8Array<ArrayBuffer> {
    const bytes: number[] = [];
    for (const [number, value] of Object.entries(fields)) {
        const tag = (type: number) => writeVarint(bytes, Number(number) * 8 + type);
        if (typeof value === "number" && value !== 0) {
            tag(VARINT);
            writeVarint(bytes, value);
        } else if (typeof value === "string" && value !== "") {
            const text = new TextEncoder().encode(value);
            tag(BYTES);
            writeVarint(bytes, text.length);
            for (const byte of text) bytes.push(byte);
        }
    }
    return new Uint8Array(bytes);
}

/** Decodes the fields of a message by their numbers. Fixed-size fields are skipped. */
export function decode(bytes: Uint8Array): Record<number, Value> {
    const fields: Record<number, Value> = {};
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let at = 0;
    const readVarint = () => {
        for (let value = 0, factor = 1; at < bytes.length && factor <= 2 ** 42; factor *= 128) {
            const byte = bytes[at++];
            value += (byte & 127) * factor;
            if (byte < 128) return value;
        }
        throw new RangeError("the message has an incomplete or too large number");
    };
    while (at < bytes.length) {
        const tag = readVarint();
        const [number, type] = [Math.floor(tag / 8), tag % 8];
        if (type === VARINT) {
            fields[number] = readVarint();
            continue;
        }
        const size = type === BYTES ? readVarint() : FIXED[type];
        if (!(at + size <= bytes.length)) throw new RangeError("the message is incomplete");
        if (type === BYTES) fields[number] = decoder.decode(bytes.subarray(at, at + size));
        at += size;
    }
    return fields;
}

function writeVarint(bytes: number[], value: number) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    bytes.push(value);
}
