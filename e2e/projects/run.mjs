// Runs real projects on Tenon, and prints the result of each: `node e2e/projects/run.mjs [NAME…]`, which
// `make projects` runs after it has built `tenon`. The names select projects or folders.
//
// | flag | meaning |
// | --- | --- |
// | `--tenon FILE` | the program, by default `target/release/tenon` |
// | `--cluster` | deploys onto the cluster of `deploy/cluster` instead of starting `tenon dev` |
// | `--jobs N` | number of folders that run at the same time, by default 2 |
// | `--write` | writes the table into `docs/what-runs.md` |
//
// The cluster needs a node, the registry of artifacts, and Tenon, whose operator may pull from the
// registry and whose Workers may connect to the servers of the suite:
//
//     deploy/cluster/up --nodes 1 --registry
//     deploy/cluster/tenon --set 'operator.registries.allowed={192.0.2.1:5000}' \
//         --set 'operator.registries.plainHTTP={192.0.2.1:5000}' --set 'runtimePool.egress.allowCidrs={192.0.2.1/32}'
//
// Each folder has one or more projects, which its `projects.mjs` lists, and the exact versions of
// their packages in `package-lock.json`. The packages come from npm's registry. The script installs
// a Node.js of its own if the one that runs it is older than the frameworks accept.

import { chmodSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { Folder, deploy, develop, folders, run } from "./project.mjs";
import { CLUSTER_NETWORK, MACHINE, Servers, Unavailable } from "./servers.mjs";

const HERE = import.meta.dirname;
const ROOT = join(HERE, "../..");
const PAGE = join(ROOT, "docs/what-runs.md");

// The oldest Node.js that all frameworks of the suite accept.
const NODE = [22, 19];

const { values: flags, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    tenon: { type: "string", default: join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "release/tenon") },
    cluster: { type: "boolean", default: false },
    jobs: { type: "string", default: "2" },
    write: { type: "boolean", default: false },
  },
});
const tenon = resolve(flags.tenon);
const jobs = Number(flags.jobs);
if (!existsSync(tenon)) fail(`there is no program ${tenon}; build it with \`make projects\`, or name one with --tenon`);
if (!(jobs >= 1 && jobs <= 64)) fail(`--jobs ${flags.jobs}: use a number from 1 to 64`);

const scratch = mkdtempSync(join(tmpdir(), "tenon-projects-"));
// The servers run as another user, in directories below this one.
chmodSync(scratch, 0o711);
const servers = new Servers(flags.cluster ? CLUSTER_NETWORK : MACHINE, scratch);
try {
  const rows = await runFolders(await environment());
  const table = format(rows);
  process.stdout.write(table);
  if (flags.write) writeFileSync(PAGE, withTable(readFileSync(PAGE, "utf8"), table));
  const failed = rows.filter(({ result }) => result.startsWith("failed"));
  for (const { name, detail } of failed) console.error(`\n${name}: ${detail}`);
  process.exitCode = rows.length > 0 && failed.length === 0 ? 0 : 1;
} finally {
  servers.stop();
  rmSync(scratch, { recursive: true, force: true });
}

// Runs the chosen projects, `jobs` folders at the same time, and returns their rows.
async function runFolders(env) {
  const queue = [];
  for (const name of folders()) {
    const { default: projects } = await import(join(HERE, name, "projects.mjs"));
    const chosen = projects.filter((project) => words.length === 0 || words.includes(name) || words.includes(project.name));
    if (chosen.length > 0) queue.push({ name, projects: chosen });
  }
  if (queue.length === 0) fail(`no project is named ${words.join(" or ")}; the folders are ${folders().join(", ")}`);
  const rows = [];
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) rows.push(...(await runFolder(next, env)));
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return rows.sort((a, b) => a.name.localeCompare(b.name));
}

// Builds a folder, runs its projects one after another, and removes its copy.
async function runFolder({ name, projects }, env) {
  const folder = new Folder(name, scratch, env);
  try {
    const built = await folder.build();
    const rows = [];
    for (const project of projects) rows.push(await runProject(folder, project, projects.length === 1 ? built : undefined));
    return rows;
  } catch (error) {
    return projects.map(({ name }) => progress({ name, version: "", result: "failed to build", detail: error.message }));
  } finally {
    folder.remove();
  }
}

async function runProject(folder, project, built) {
  const row = { name: project.title ?? project.name, version: folder.version(project.package), built };
  try {
    const vars = { GREETING: "Hello from env" };
    for (const name of project.needs ?? []) vars[name] = await servers.url(name);
    const directory = folder.project(project, vars);
    row.time = await (flags.cluster ? deploy : develop)(tenon, directory, project.requests);
    row.result = project.stopped ? "failed: works now; remove the key `stopped`" : "works";
  } catch (error) {
    const isKnown = project.stopped && error.message.includes(project.stopped.error);
    row.result = isKnown ? `stopped: ${project.stopped.by}` : error instanceof Unavailable ? "not run" : "failed";
    row.detail = error.message;
  }
  return progress(row);
}

function progress(row) {
  console.error(`${row.name} ${row.version}: ${row.result}`);
  return row;
}

// Returns the environment of npm and of builds, with a Node.js that the frameworks accept.
async function environment() {
  const env = { ...process.env, CI: "1", npm_config_update_notifier: "false", NODE_ENV: undefined };
  for (const name of ["ASTRO_TELEMETRY_DISABLED", "NEXT_TELEMETRY_DISABLED", "NUXT_TELEMETRY_DISABLED"]) env[name] = "1";
  env.WRANGLER_SEND_METRICS = "false";
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > NODE[0] || (major === NODE[0] && minor >= NODE[1])) return env;
  const directory = join(scratch, "node");
  for (const file of ["package.json", "package-lock.json"]) cpSync(join(HERE, "node", file), join(directory, file));
  cpSync(join(HERE, ".npmrc"), join(directory, ".npmrc"));
  await run("npm", ["ci", "--prefer-offline", "--loglevel", "error"], { cwd: directory });
  return { ...env, PATH: `${join(directory, "node_modules/.bin")}:${env.PATH}` };
}

// Returns the rows as a Markdown table.
function format(rows) {
  const time = (seconds) => (seconds === undefined ? "" : `${seconds.toFixed(1)} s`);
  const cells = rows.map(({ name, version, built, time: started, result }) => [name, version, time(built), time(started), result]);
  const lines = [["project", "version", "install and build", "first answer", "result"], ["---", "---", "--:", "--:", "---"], ...cells];
  return lines.map((line) => `| ${line.join(" | ")} |\n`).join("");
}

// Returns the page with the new table, and with a note on how the times were measured.
function withTable(page, table) {
  const [begin, end] = ["<!-- projects -->\n", "<!-- /projects -->\n"];
  const [before, after] = [page.indexOf(begin) + begin.length, page.indexOf(end)];
  const when = `Measured on ${availableParallelism()} CPUs, ${jobs} projects at a time.\n\n`;
  return `${page.slice(0, before)}\n${when}${table}\n${page.slice(after)}`;
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}
