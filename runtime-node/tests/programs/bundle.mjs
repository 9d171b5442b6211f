// Bundles every program of this directory the way tools for Workers do: `node bundle.mjs DIRECTORY`.
import { readdir } from "node:fs/promises";
import { build } from "esbuild";

/** Modules of node's are imported, also where a package asks for them by `require`. */
const builtins = {
  name: "builtins",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === "require-call" ? { path, namespace: "required" } : { path, external: true },
    );
    onLoad({ filter: /.*/, namespace: "required" }, ({ path }) => ({
      contents: `import library from ${JSON.stringify(path)};\nmodule.exports = library;`,
    }));
  },
};

const sources = import.meta.dirname;
const programs = (await readdir(sources)).filter((file) => /\.(js|jsx|ts)$/.test(file));
await build({
  absWorkingDir: sources,
  entryPoints: programs,
  outdir: process.argv[2],
  bundle: true,
  format: "esm",
  target: "es2024",
  platform: "neutral",
  mainFields: ["browser", "module", "main"],
  conditions: ["workerd", "worker", "browser"],
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [builtins],
  logLevel: "warning",
});
