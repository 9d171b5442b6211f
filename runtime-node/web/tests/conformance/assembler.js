// Assembles WebAssembly modules for tests. Sections are lists, and code consists of bytes.

export const i32 = 0x7f, i64 = 0x7e, f32 = 0x7d, f64 = 0x7c, v128 = 0x7b, funcref = 0x70, externref = 0x6f;

/** The instructions that tests use. */
export const op = {
  unreachable: 0x00, nop: 0x01, block: 0x02, loop: 0x03, if: 0x04, else: 0x05, throw: 0x08, end: 0x0b, br: 0x0c, br_if: 0x0d,
  br_table: 0x0e, return: 0x0f, call: 0x10, call_indirect: 0x11, return_call: 0x12, drop: 0x1a, try: 0x06, catch_all: 0x19,
  local_get: 0x20, local_set: 0x21, local_tee: 0x22, global_get: 0x23, global_set: 0x24, table_get: 0x25,
  i32_load: 0x28, i32_load8_u: 0x2d, i32_store: 0x36, i32_store8: 0x3a, memory_size: 0x3f, memory_grow: 0x40, i32_const: 0x41, i64_const: 0x42,
  i32_eqz: 0x45, i32_add: 0x6a, i32_sub: 0x6b, i32_mul: 0x6c, i32_div_s: 0x6d, i64_add: 0x7c, prefix: 0xfc,
  empty: 0x40,
};

/** Returns the bytes of an unsigned LEB128 number. */
export function unsigned(number) {
  const bytes = [];
  do {
    const low = number % 128;
    number = Math.floor(number / 128);
    bytes.push(number === 0 ? low : low | 128);
  } while (number !== 0);
  return bytes;
}
/** Returns the bytes of a signed LEB128 number of at most 32 bits. */
export function signed(number) {
  const bytes = [];
  for (;;) {
    const low = number & 127;
    number >>= 7;
    if ((number === 0 && (low & 64) === 0) || (number === -1 && (low & 64) !== 0)) return [...bytes, low];
    bytes.push(low | 128);
  }
}

export const constant = (number) => [op.i32_const, ...signed(number)];

/** A buffer of bytes that grows. */
class Writer {
  #bytes = new Uint8Array(256);
  length = 0;

  #room(more) {
    if (this.length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * (this.length + more));
    larger.set(this.#bytes.subarray(0, this.length));
    this.#bytes = larger;
  }

  bytes(list) {
    this.#room(list.length);
    this.#bytes.set(list, this.length);
    this.length += list.length;
    return this;
  }

  number(number) {
    return this.bytes(unsigned(number));
  }

  string(string) {
    const bytes = new TextEncoder().encode(string);
    return this.number(bytes.length).bytes(bytes);
  }

  list(items, write) {
    this.number(items.length);
    for (const item of items) write(item);
    return this;
  }

  done() {
    return this.#bytes.slice(0, this.length);
  }
}

/**
 * Returns the bytes of a module. The sections are lists of:
 *
 * - `types`: `[parameters, results]`
 * - `imports`: `[module, name, ...bytes of its description]`: a function is `0` and its type, a
 *   table `1, type, ...limits`, a memory `2, ...limits`, a global `3, type, mutable`, a tag `4, 0`
 *   and its type
 * - `functions`: `{type, locals, code}`: the index of its type; `[count, type]` of locals; its
 *   instructions, without the last `end`
 * - `tables`: `[type, ...limits]`, `memories`: limits; limits are `0, min` or `1, min, max`
 * - `globals`: `[type, mutable, ...instructions]`
 * - `tags`: the indices of the exceptions' types
 * - `start`: the index of the function that runs at instantiation, not a list
 * - `exports`: `[name, kind, index]`
 * - `elements`: `[offset, indices of functions]` in the first table
 * - `data`: `[offset, bytes]` in the first memory
 * - `custom`: `[name, bytes]`
 */
export function assemble({
  types = [], imports = [], functions = [], tables = [], memories = [], tags = [], globals = [], exports = [], start = null,
  elements = [], data = [], custom = [],
}) {
  const out = new Writer().bytes([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  const section = (id, write) => {
    const content = new Writer();
    write(content);
    const bytes = content.done();
    out.bytes([id]).number(bytes.length).bytes(bytes);
  };
  const list = (id, items, write) => {
    if (items.length > 0) section(id, (to) => to.list(items, (item) => write(to, item)));
  };
  const limits = (to, [flags, ...numbers]) => {
    to.bytes([flags]);
    for (const number of numbers) to.number(number);
  };
  list(1, types, (to, [parameters, results]) =>
    to.bytes([0x60]).number(parameters.length).bytes(parameters).number(results.length).bytes(results));
  list(2, imports, (to, [module, name, kind, ...rest]) => {
    to.string(module).string(name).bytes([kind]);
    if (kind === 0) to.number(rest[0]);
    else if (kind === 1) limits(to.bytes([rest[0]]), rest.slice(1));
    else if (kind === 2) limits(to, rest);
    else to.bytes(rest);
  });
  list(3, functions, (to, { type }) => to.number(type));
  list(4, tables, (to, [type, ...rest]) => limits(to.bytes([type]), rest));
  list(5, memories, limits);
  list(13, tags, (to, type) => to.bytes([0]).number(type));
  list(6, globals, (to, [type, mutable, ...code]) => to.bytes([type, mutable]).bytes(code).bytes([op.end]));
  list(7, exports, (to, [name, kind, index]) => to.string(name).bytes([kind]).number(index));
  if (start !== null) section(8, (to) => to.number(start));
  list(9, elements, (to, [offset, indices]) =>
    to.bytes([0, ...constant(offset), op.end]).list(indices, (index) => to.number(index)));
  list(10, functions, (to, { locals = [], code }) => {
    const body = new Writer();
    body.list(locals, ([count, type]) => body.number(count).bytes([type]));
    body.bytes(code).bytes([op.end]);
    const bytes = body.done();
    to.number(bytes.length).bytes(bytes);
  });
  list(11, data, (to, [offset, bytes]) =>
    to.bytes([0, ...constant(offset), op.end]).number(bytes.length).bytes(bytes));
  for (const [name, bytes] of custom) section(0, (to) => to.string(name).bytes(bytes));
  return out.done();
}

/**
 * Returns the bytes of a module with one function, which is exported as `run`, and with the other
 * given sections.
 */
export const program = (code, { parameters = [], results = [], locals = [], ...rest } = {}) =>
  assemble({
    functions: [{ type: 0, locals, code }],
    ...rest,
    types: [[parameters, results], ...(rest.types ?? [])],
    exports: [["run", 0, (rest.imports ?? []).filter(([, , kind]) => kind === 0).length], ...(rest.exports ?? [])],
  });
