// Runs one project: from its packages through the build and the commands of `tenon` to the answers of
// its Worker.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { ask } from "./ask.mjs";

const HERE = import.meta.dirname;

/**
 * The cluster of `deploy/cluster`: the command that runs programs in its network, the address there,
 * its registry, the domain of its Workers, and the port of its router on this machine.
 */
export const CLUSTER = {
  runIn: join(HERE, "../../deploy/cluster/run-in"),
  address: "192.0.2.1",
  registry: "192.0.2.1:5000/projects",
  domain: "tenon.localhost",
  port: Number(process.env.TENON_CLUSTER_HTTP_PORT ?? 8080),
};

// Time limit of each program that `run` starts, in milliseconds. It is much longer than any program
// takes.
const DEADLINE = 1_800_000;

// Returns the configuration of a project that has none of its own: a library in a Worker of one
// module.
const configuration = (name, vars) => ({
  name,
  main: "src/index.js",
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat"],
  vars,
});

const seconds = (since) => (performance.now() - since) / 1000;

/** Returns the names of the folders that contain a `projects.mjs`. */
export const folders = () => readdirSync(HERE).filter((name) => existsSync(join(HERE, name, "projects.mjs"))).sort();

/** A folder of projects with the same packages. Their programs run in a copy of the folder. */
export class Folder {
  constructor(name, scratch, environment) {
    this.name = name;
    this.directory = join(scratch, name);
    this.environment = environment;
  }

  /** Installs the packages of the lock file, and builds the project. Returns the time in seconds. */
  async build() {
    const start = performance.now();
    cpSync(join(HERE, this.name), this.directory, { recursive: true });
    rmSync(join(this.directory, "projects.mjs"));
    cpSync(join(HERE, ".npmrc"), join(this.directory, ".npmrc"));
    const options = { cwd: this.directory, env: this.environment };
    await run("npm", ["ci", "--prefer-offline", "--loglevel", "error"], options);
    const { scripts = {} } = this.manifest();
    // The script `build:worker` runs OpenNext, which itself runs `build` and adapts the result.
    const script = ["build:worker", "build"].find((name) => scripts[name]);
    if (script) await run("npm", ["run", script], options);
    return seconds(start);
  }

  manifest() {
    return JSON.parse(readFileSync(join(this.directory, "package.json"), "utf8"));
  }

  /** Returns the version of an installed package. */
  version(name) {
    return JSON.parse(readFileSync(join(this.directory, "node_modules", name, "package.json"), "utf8")).version;
  }

  /**
   * Returns the directory of one project: the copy of the folder. A project that is a library first
   * gets a directory of its own in that copy, with its source and a configuration.
   */
  project({ name }, vars) {
    const source = join(HERE, this.name, "src", `${name}.js`);
    if (!existsSync(source)) return this.directory;
    const directory = join(this.directory, "projects", name);
    mkdirSync(join(directory, "src"), { recursive: true });
    cpSync(source, join(directory, "src/index.js"));
    writeFileSync(join(directory, "wrangler.json"), JSON.stringify(configuration(name, vars)));
    return directory;
  }

  remove() {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/**
 * Runs a project with `tenon dev`, and sends its requests.
 *
 * @param tenon the program
 * @param directory the directory of the project, with its packages installed and the project built
 * @param requests as `ask.mjs` describes them
 * @returns the time until the first good answer, in seconds
 */
export async function develop(tenon, directory, requests) {
  const start = performance.now();
  const options = { cwd: directory };
  await run(tenon, ["import", ".", "--output", "-"], options);
  await run(tenon, ["check", "."], options);
  const dev = spawn(tenon, ["dev", "--listen", "127.0.0.1:0", "--shards", "1", "."], { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(dev, "exit");
  let log = "";
  for (const stream of [dev.stdout, dev.stderr]) stream.on("data", (text) => (log = (log + text).slice(-16_384)));
  try {
    const address = { host: "localhost", port: await portOf(dev, ended) };
    return await askAll(address, requests, start);
  } catch (error) {
    // The Worker's log usually names the cause.
    error.message += `\n${log}`;
    throw error;
  } finally {
    dev.kill("SIGKILL");
    await ended;
  }
}

/**
 * Deploys a project to the cluster of `deploy/cluster`, and sends its requests to the router there.
 * The arguments and the result are those of `develop`.
 */
export async function deploy(tenon, directory, requests) {
  const start = performance.now();
  const registry = ["--registry", CLUSTER.registry, "--plain-http"];
  const { output } = await run(CLUSTER.runIn, [tenon, "deploy", ...registry, "--domain", CLUSTER.domain, "."], { cwd: directory });
  const url = /http:\S+/.exec(output)?.[0];
  if (!url) throw new Error(`tenon deploy printed no URL: ${output}`);
  return askAll({ host: new URL(url).hostname, port: CLUSTER.port }, requests, start);
}

// Sends requests, and returns the time from `start` until the first good answer, in seconds.
async function askAll(address, requests, start) {
  let time;
  for (const request of requests) {
    await ask(address, request);
    time ??= seconds(start);
  }
  return time;
}

// Returns the port of `tenon dev`, once it is ready.
async function portOf(dev, ended) {
  const ready = new Promise((resolve) => {
    let port;
    createInterface({ input: dev.stdout }).on("line", (line) => {
      port ??= /^Tenon serves on .*:(\d+)/.exec(line)?.[1];
      if (line.startsWith("Ready")) resolve(port);
    });
  });
  const failed = ended.then(([status]) => Promise.reject(new Error(`tenon dev ended with status ${status}`)));
  return Promise.race([ready, failed]);
}

/** Runs a program until it exits, and returns what it printed. Fails if the program fails. */
export async function run(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], timeout: DEADLINE, ...options });
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
  const [status] = await once(child, "close");
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed:\n${(output + errors).slice(-4000)}`);
  return { output, errors };
}
