// Bundles programs of this directory as the tools for Workers do: `node bundle.mjs DIRECTORY NAME…`.
//
// If the program is a file, the file is its entrypoint. If it is a directory, it is a project of a
// framework: its own build runs first, in a copy of the directory; `main` of the resulting wrangler
// configuration is the entrypoint, and `assets` are the files for browsers.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, readdir, rm, symlink } from "node:fs/promises";
import { builtinModules } from "node:module";
import { dirname, join, parse } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";

const sources = import.meta.dirname;
const [bundles, ...names] = process.argv.slice(2);

/** Imports Node.js modules, even where a package calls `require` or uses names without `node:`. */
const builtins = {
  name: "builtins",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^(node|cloudflare):/ }, ({ path, kind }) =>
      kind === "require-call" ? { path, namespace: "required" } : { path, external: true },
    );
    const old = builtinModules.filter((name) => !name.startsWith("_"));
    onResolve({ filter: new RegExp(`^(${old.join("|")})$`) }, ({ path, kind }) =>
      kind === "require-call" ? { path: `node:${path}`, namespace: "required" } : { path: `node:${path}`, external: true },
    );
    onLoad({ filter: /.*/, namespace: "required" }, ({ path }) => ({
      contents: `import library from ${JSON.stringify(path)};\nmodule.exports = library;`,
    }));
  },
};

/**
 * Replaces the XML parser that AWS's client uses in browsers, which needs DOMParser, with its other
 * parser, as on Cloudflare.
 */
const xml = {
  name: "xml",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\/xml-parser$/ }, ({ resolveDir }) => ({ path: join(resolveDir, "xml-parser.js") }));
  },
};

const bundle = (directory, options) =>
  build({
    absWorkingDir: directory,
    bundle: true,
    format: "esm",
    target: "es2024",
    platform: "browser",
    conditions: ["workerd", "worker", "browser"],
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    plugins: [builtins, xml],
    logLevel: "warning",
    ...options,
  });

const json = async (file) => JSON.parse(await readFile(file, "utf8"));

/** Returns the path of the wrangler configuration to deploy, which a build may have redirected. */
async function configurationOf(directory) {
  const elsewhere = join(directory, ".wrangler/deploy/config.json");
  return existsSync(elsewhere) ? join(dirname(elsewhere), (await json(elsewhere)).configPath) : join(directory, "wrangler.json");
}

async function project(name) {
  const directory = join(bundles, "projects", name);
  await rm(directory, { recursive: true, force: true });
  await cp(join(sources, name), directory, { recursive: true });
  await symlink(join(sources, "node_modules"), join(directory, "node_modules"));
  const environment = { ...process.env, NODE_ENV: "production", CI: "1" };
  await promisify(execFile)("npm", ["run", "build"], { cwd: directory, env: environment }).catch((error) => {
    throw new Error(`${name} cannot be built: ${error.stdout}\n${error.stderr}`);
  });
  const configuration = await configurationOf(directory);
  const { main, assets } = await json(configuration);
  const built = dirname(configuration);
  await bundle(built, { entryPoints: [main], outfile: join(bundles, `${name}.js`) });
  await cp(join(built, assets.directory), join(bundles, `${name}.assets`), { recursive: true });
}

await rm(bundles, { recursive: true, force: true });
await mkdir(bundles, { recursive: true });
const { workspaces } = await json(join(sources, "package.json"));
const files = (await readdir(sources)).filter((file) => /\.(js|jsx|ts)$/.test(file) && names.includes(parse(file).name));
await bundle(sources, { entryPoints: files, outdir: bundles });
await Promise.all(workspaces.filter((name) => names.includes(name)).map(project));
