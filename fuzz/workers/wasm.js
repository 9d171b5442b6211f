// Checks that a module that compiles also validates, and that no module crashes the process.

import { attempt, checker, same } from "./check.js";

const wasm = (error) => error instanceof WebAssembly.CompileError || error instanceof WebAssembly.LinkError ||
  error instanceof WebAssembly.RuntimeError || error instanceof WebAssembly.Exception;

// Runs `make`. A WebAssembly program may throw any of the errors above.
function run(make) {
  try {
    return attempt(make);
  } catch (error) {
    if (!wasm(error)) throw error;
    return undefined;
  }
}

function stub({ kind }) {
  if (kind === "function") return () => 1;
  if (kind === "memory") return new WebAssembly.Memory({ initial: 1, maximum: 4 });
  if (kind === "table") return new WebAssembly.Table({ initial: 1, maximum: 8, element: "anyfunc" });
  if (kind === "global") return 1;
  return new WebAssembly.Tag({ parameters: [] });
}

export default checker((reader) => {
  const bytes = reader.rest;
  const valid = WebAssembly.validate(bytes);
  const module = run(() => new WebAssembly.Module(bytes));
  // A valid module may exceed a limit and not compile, but no invalid module compiles.
  if (module !== undefined) same(valid, true, "the validity of a module that compiles");
  if (module === undefined) return;
  const imports = { __proto__: null };
  for (const imported of WebAssembly.Module.imports(module)) {
    (imports[imported.module] ??= { __proto__: null })[imported.name] = stub(imported);
  }
  const instance = run(() => new WebAssembly.Instance(module, imports));
  if (instance === undefined) return;
  const names = WebAssembly.Module.exports(module).map(({ name }) => name);
  same(JSON.stringify(Object.keys(instance.exports).sort()), JSON.stringify(names.sort()), "exports");
  for (const name of names.slice(0, 8)) {
    const value = instance.exports[name];
    if (typeof value === "function") run(() => value(1, 2n, 3));
    if (value instanceof WebAssembly.Memory) run(() => value.grow(1));
    if (value instanceof WebAssembly.Global) run(() => value.value);
    if (value instanceof WebAssembly.Table) run(() => value.get(0));
  }
});
