// Checks the types of the interfaces' JavaScript: `node runtime-node/web/types/check.mjs`.
//
//     ../src/**/*.js   functions of `internal`             ──▶  target/javascript/**/*.js
//     ../src/**/*.rs   signatures of ops                   ──▶  target/javascript/generated.d.ts
//     internal.d.ts    types that cannot be inferred       ──▶  tsc
//
// The type of a value that a file puts on `internal` is inferred by tsc, so that it is stated once.
// For that, tsc reads a copy of each file as a module: the body of the function is the body of the
// module, and `internal.name = …` is an exported constant. The lines of a copy are those of its
// source, and error messages name the source. `generated.d.ts` adds the exports to `Internal`, and
// declares `internal.ops` with the signatures of the Rust functions that have the attribute `#[op]`
// (`../src/ops.rs`).
//
// TypeScript is installed from `package-lock.json` into a cache, once for each version of that
// file.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../../..");
const SOURCES = "runtime-node/web/src";
const COPIES = "target/javascript";

const read = (path) => readFileSync(path, "utf8");

// Returns the paths of the sources that end with `extension`.
const sources = (extension) =>
  readdirSync(join(ROOT, SOURCES), { recursive: true }).filter((path) => path.endsWith(extension)).sort();

// Runs a program to its end, and returns its status and what it wrote to stdout.
function run(command, args, cwd) {
  const done = spawnSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  if (done.error) throw done.error;
  return done;
}

// Returns the path of the compiler. Installs the compiler unless the cache has the version of the
// lock file.
function compiler() {
  const pinned = createHash("sha256").update(read(join(HERE, "package-lock.json"))).digest("hex");
  const cache = join(process.env.TENON_CACHE ?? join(homedir(), ".cache/tenon"), "types");
  if (!existsSync(join(cache, "pinned")) || read(join(cache, "pinned")) !== pinned) {
    console.error(`installing TypeScript into ${cache}`);
    rmSync(cache, { recursive: true, force: true });
    mkdirSync(cache, { recursive: true });
    for (const file of ["package.json", "package-lock.json", ".npmrc"]) copyFileSync(join(HERE, file), join(cache, file));
    if (run("npm", ["ci", "--loglevel", "error"], cache).status !== 0) throw new Error("`npm ci` failed");
    writeFileSync(join(cache, "pinned"), pinned);
  }
  return join(cache, "node_modules/typescript/bin/tsc");
}

// ---- Declarations

// The members of the interfaces that `generated.d.ts` declares. `Use` is the type of the function
// `internal.use`.
const generated = { Internal: [], Modules: [], Use: [], Ops: [] };
// The declarations of the structs with `#[derive(Record)]`.
const records = [];

// Rust's types in TypeScript. Any other name stands for a type of `internal.d.ts`, or for a type
// that is derived from a struct with `#[derive(Record)]`. A `Local<T>` is looked up as `T`.
const TYPES = {
  "()": "void", bool: "boolean", String: "string", "&str": "string", "&'static str": "string",
  i32: "number", u32: "number", f64: "number", usize: "number", Ordering: "-1 | 0 | 1",

  "v8::Array": "any[]", "v8::ArrayBuffer": "ArrayBuffer", "v8::ArrayBufferView": "View", "v8::Function": "Function",
  "v8::Object": "object", "v8::Promise": "Promise<any>", "v8::String": "string", "v8::Value": "any",
  "v8::Uint8Array": "Uint8Array<ArrayBuffer>", "v8::Uint32Array": "Uint32Array", "v8::WasmModuleObject": "object",

  Callback: "() => void", HeaderList: "string[]", HeaderMap: "string[]",
  ConnectionId: "number", InvocationId: "number", OperationId: "number", SocketId: "number", StreamId: "number",
  Content: "string | View | null", Evaluation: "Promise<unknown>", LateScript: "(internal: object) => void",
  Method: "string", RedirectMode: "string", SocketData: "string | View", Url: "string",
  Crypted: "ArrayBuffer | Ticket", Curve: "string", Data: "View", Hash: "string", KeyRef: "Handle",
  LengthOrHash: "number | string", Salt: "number", SecretSource: "View | Handle",
  Encoding: "number", HandlerList: "(string | number | null)[]", Input: "string | (string | undefined)[]", Named: "string", Names: "string[]",
  PromiseState: "'pending' | 'fulfilled' | 'rejected'", True: "true",
};
const GENERIC = {
  Option: (type) => `${type} | undefined`,
  Nullable: (type) => `${type} | null`,
  Promised: (type) => `Promise<${type}>`,
  Vec: (type) => `(${type})[]`,
  Local: (type) => type,
  Maybe: (type) => type,
  OrRefusal: (type) => `${type} | string`,
  Result: (type) => type,
};

// Splits a list at the commas that are not within brackets. Lifetimes and empty parts are left out.
function split(list) {
  const parts = [""];
  let depth = 0;
  for (const character of list) {
    if ("<([".includes(character)) depth += 1;
    if (">)]".includes(character)) depth -= 1;
    if (character === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== "" && !part.startsWith("'"));
}

// Returns the TypeScript type of a Rust type.
function typescript(rust) {
  const type = rust.trim();
  if (TYPES[type] !== undefined) return TYPES[type];
  const [, name, list] = /^(?:\w+::)*(\w+)(?:<([^]*)>)?$/.exec(type);
  const parameters = split(list ?? "").map(typescript);
  if (GENERIC[name]) return GENERIC[name](parameters[0]);
  if (TYPES[name] !== undefined) return TYPES[name];
  return parameters.length > 0 ? `${name}<${parameters.join(", ")}>` : name;
}

const camel = (name) => name.replace(/^_/, "").replace(/_(\w)/g, (_, initial) => initial.toUpperCase());

// Rust types that stand for several arguments, and the types of those arguments.
const SEVERAL = {
  Key: { name: "string", url: "string" },
  Sent: { body: "Body", owner: "number | undefined", stream: "number | undefined" },
};

// Returns the TypeScript parameters that a Rust parameter stands for.
function parameters(rust) {
  const [, pattern, type] = /^(?:mut )?(\w+|\([^)]*\)): ([^]*)$/.exec(rust);
  if (SEVERAL[type]) return Object.entries(SEVERAL[type]).map(([name, type]) => ({ name, type }));
  if (!pattern.startsWith("(")) return [{ name: camel(pattern), type: typescript(type) }];
  const types = split(type.slice(1, -1));
  return split(pattern.slice(1, -1)).map((name, i) => ({ name: camel(name), type: typescript(types[i]) }));
}

// Declares the ops and the records of a Rust source.
function declareOps(path) {
  const text = read(join(ROOT, SOURCES, path));
  const functions = /^#\[op\]\n(?:#\[.*\]\n)*(?:pub(?:\(\w+\))? )?fn (\w+)(?:<.*>)?\(([^]*?)\)(?: -> ([^]*?))? \{$/gm;
  const found = Array.from(text.matchAll(functions));
  if (found.length !== text.split("\n#[op]\n").length - 1) throw new Error(`${SOURCES}/${path}: cannot parse an #[op]`);
  for (const [, name, list, returned = "()"] of found) {
    const all = split(list).filter((one) => !/^_?scope: /.test(one)).flatMap(parameters);
    // Trailing arguments may be left out.
    const required = all.findLastIndex(({ type }) => !type.endsWith(" | undefined"));
    const signature = all.map(({ name, type }, i) => `${name}${i > required ? "?" : ""}: ${type}`).join(", ");
    generated.Ops.push(`    ${camel(name)}(${signature}): ${typescript(returned)};`);
  }
  const structs = /^#\[derive\(.*\bRecord\b.*\)\]\n(?:pub(?:\(\w+\))? )?struct (\w+)(?:<.*>)? \{\n([^]*?)\n\}$/gm;
  for (const [, name, body] of text.matchAll(structs)) {
    const fields = split(body.replace(/^ *\/\/.*\n?/gm, "").replace(/pub(\(\w+\))? /g, "")).flatMap(parameters);
    records.push(`  type ${name} = { ${fields.map(({ name, type }) => `${name}: ${type}`).join("; ")} };\n`);
  }
}

// Declares that a member of an interface has the type of the constant that a copy exports.
function declare(group, name, path) {
  const type = `typeof import("./${path}").$${name}`;
  generated[group].push(`    ${name}: ${type};`);
  // `Use` has overloads, because a generic function would relate the types of all modules to each
  // other.
  if (group === "Modules") generated.Use.push(`    (name: "${name}"): ${type};`);
}

// ---- Copies

// A member that `internal.d.ts` declares is not exported: tsc checks what the sources assign to it.
const INTERNAL = /^  interface Internal \{\n(.*?)^  \}/ms.exec(read(join(HERE, "internal.d.ts")))[1];
const DECLARED = new Set(Array.from(INTERNAL.matchAll(/^    (\w+)[(:]/gm), ([, name]) => name));

// The forms in which a source puts a value on an interface, each with the interface and the
// beginning of the expression in the copy.
const FORMS = [
  ["Internal", /^  internal\.(\w+) = (?!undefined)/gm, ""],
  ["Internal", /^  internal\.later\((?=\s*"(\w+)")/gm, "$later("],
  ["Modules", /^  internal\.define\((?=\s*"(\w+)")/gm, "$define("],
];

// Writes the copy of a JavaScript source, and declares its exports.
function copy(path) {
  const source = read(join(ROOT, SOURCES, path));
  const type = /^\/\/: (.*, )?module\b/m.test(source) ? "ModuleInternal" : "Internal";
  let text = source
    .replace("(function (internal) {", `const internal = /** @type {${type}} */ (/** @type {unknown} */ (0));`)
    .replace(/^\}\)$/m, "export {};")
    // `__proto__` sets the prototype, and is not a property.
    .replace(/\b__proto__: null(, ?)?/g, (match) => " ".repeat(match.length));
  for (const [group, form, beginning] of FORMS) {
    text = text.replace(form, (match, name) => {
      if (group === "Internal" && DECLARED.has(name)) return match;
      declare(group, name, path);
      return `  export const $${name} = ${beginning}`;
    });
  }
  // A value that is initially null or undefined may have any type later.
  text = text.replace(/(?<=\w: |[^=!<>]= )(null|undefined)\b(?=[,;)} ]|$)/gm, (match) => "$any".padEnd(match.length));
  const to = join(ROOT, COPIES, path);
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, text);
}

// ---- The check

const tsc = compiler();
rmSync(join(ROOT, COPIES), { recursive: true, force: true });
sources(".js").forEach(copy);
sources(".rs").forEach(declareOps);
const interfaces = Object.entries(generated).map(([name, members]) => `  interface ${name} {\n${members.join("\n")}\n  }\n`);
writeFileSync(join(ROOT, COPIES, "generated.d.ts"), `export {};\ndeclare global {\n${interfaces.join("")}${records.join("")}}\n`);

const { status, stdout } = run(process.execPath, [tsc, "--project", HERE, "--pretty", "false"], ROOT);
// tsc considers a private field unused if it is read only from values of the type `any`.
const errors = stdout.split("\n").filter((line) => line !== "" && !/ TS6133: '#/.test(line));
for (const error of errors) console.log(error.replace(/^target\/javascript\/(?!generated)/, `${SOURCES}/`));
// If tsc has failed without any output, it has not checked the sources.
process.exitCode = errors.length === 0 && (status === 0 || stdout !== "") ? 0 : 1;
