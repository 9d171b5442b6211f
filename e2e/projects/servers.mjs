// Starts the servers that the Workers of the suite need, each in an empty directory: real databases,
// and an origin that stands in for the services of others. The programs of the databases are those
// of Debian's packages; for MongoDB's protocol, FerretDB is built from its Go module.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { CLUSTER, run } from "./project.mjs";

// Time limit for the start of a server, in milliseconds. It is much longer than any start takes.
const DEADLINE = 300_000;

// PostgreSQL and MariaDB refuse to run as root, so all databases run as the user `nobody`.
const NOBODY = 65_534;
const IS_ROOT = process.getuid() === 0;
const UNPRIVILEGED = IS_ROOT ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];

const FERRETDB = "v1.24.2";

/** The network of this machine: where Workers reach servers, and the command that runs them there. */
export const MACHINE = { address: "127.0.0.1", runIn: [] };

/** The network of the cluster of `deploy/cluster`. */
export const CLUSTER_NETWORK = { address: CLUSTER.address, runIn: [CLUSTER.runIn] };

/** A server that cannot be started on this machine. The message says what to install. */
export class Unavailable extends Error {}

// The servers, by the name of the variable that has their URL. Each function gets an empty
// directory, an address and a port, and returns the command to run and its URL.
const servers = {
  ORIGIN(directory, address, port) {
    const command = [process.execPath, join(import.meta.dirname, "origin.mjs"), address, String(port)];
    return { command, url: `http://${address}:${port}` };
  },

  async POSTGRES(directory, address, port) {
    const program = debian("postgres", "postgresql");
    const initialize = join(program, "../initdb");
    const settings = ["--username", "ada", "--auth", "trust", "--no-sync", "--encoding", "UTF8"];
    await runUnprivileged([initialize, "--pgdata", directory, ...settings]);
    appendFileSync(join(directory, "pg_hba.conf"), "host all all 0.0.0.0/0 trust\n");
    const served = [`listen_addresses=${address}`, `unix_socket_directories=${directory}`, "fsync=off"];
    const command = [...UNPRIVILEGED, program, "-D", directory, "-p", String(port), ...served.flatMap((setting) => ["-c", setting])];
    return { command, url: `postgres://ada@${address}:${port}/postgres` };
  },

  async MYSQL(directory, address, port) {
    const program = debian("mariadbd", "mariadb-server");
    const tables = ["--no-defaults", `--datadir=${directory}`, "--auth-root-authentication-method=normal"];
    await runUnprivileged([debian("mariadb-install-db", "mariadb-server"), ...tables]);
    // Without grants, root may connect from any address.
    const settings = [`--socket=${directory}/socket`, `--port=${port}`, `--bind-address=${address}`, "--skip-grant-tables"];
    return { command: [...UNPRIVILEGED, program, "--no-defaults", `--datadir=${directory}`, ...settings], url: `mysql://root@${address}:${port}/test` };
  },

  REDIS(directory, address, port) {
    const settings = ["--port", String(port), "--bind", address, "--dir", directory, "--save", "", "--protected-mode", "no"];
    return { command: [...UNPRIVILEGED, debian("redis-server", "redis-server"), ...settings], url: `redis://${address}:${port}` };
  },

  async MONGODB(directory, address, port, tools) {
    const program = join(tools, "ferretdb");
    if (!existsSync(program)) {
      await buildFerretDb(tools).catch((error) => {
        throw new Unavailable(`FerretDB cannot be built; install Go: ${error.message}`);
      });
    }
    const state = [`--state-dir=${directory}`, `--sqlite-url=file:${directory}/`];
    const settings = ["--handler=sqlite", ...state, `--listen-addr=${address}:${port}`, "--debug-addr=-", "--telemetry=disable", "--log-level=error"];
    return { command: [...UNPRIVILEGED, program, ...settings], url: `mongodb://${address}:${port}/` };
  },
};

// Runs a command as a user that is not root.
function runUnprivileged(command) {
  const [program, ...args] = [...UNPRIVILEGED, ...command];
  return run(program, args);
}

// Builds FerretDB into a directory, from a copy of its module: the module lacks the file with its
// version, without which the program does not start.
async function buildFerretDb(directory) {
  const { output } = await run("go", ["mod", "download", "-json", `github.com/FerretDB/FerretDB@${FERRETDB}`]);
  const source = join(directory, "ferretdb-source");
  cpSync(JSON.parse(output).Dir, source, { recursive: true });
  await run("chmod", ["--recursive", "u+w", source]);
  writeFileSync(join(source, "build/version/version.txt"), FERRETDB);
  await run("go", ["build", "-o", join(directory, "ferretdb"), "./cmd/ferretdb"], { cwd: source });
}

// Returns the path of a program of a Debian package.
function debian(name, packageName) {
  const versions = "/usr/lib/postgresql";
  const ofPostgres = existsSync(versions) ? readdirSync(versions).map((version) => join(versions, version, "bin")) : [];
  const found = ["/usr/bin", "/usr/sbin", ...ofPostgres].map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (!found) throw new Unavailable(`${name} is not installed; run apt-get install ${packageName}`);
  return found;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The servers of a run, started when a Worker first needs them. */
export class Servers {
  #network;
  #scratch;
  #started = new Map();
  #children = [];

  /**
   * @param network `MACHINE` or `CLUSTER_NETWORK`
   * @param scratch a directory that other users may enter
   */
  constructor(network, scratch) {
    this.#network = network;
    this.#scratch = scratch;
  }

  /** Returns the URL of a server. Fails with `Unavailable` if this machine lacks its program. */
  url(name) {
    if (!this.#started.has(name)) this.#started.set(name, this.#start(name));
    return this.#started.get(name);
  }

  async #start(name) {
    const directory = mkdtempSync(join(this.#scratch, `${name.toLowerCase()}-`));
    if (IS_ROOT) chownSync(directory, NOBODY, NOBODY);
    chmodSync(directory, 0o700);
    const tools = join(this.#scratch, "tools");
    mkdirSync(tools, { recursive: true });
    const port = await freePort();
    const { command, url } = await servers[name](directory, this.#network.address, port, tools);
    const [program, ...args] = [...this.#network.runIn, ...command];
    const child = spawn(program, args, { cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
    this.#children.push(child);
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (errors = (errors + text).slice(-4096)));
    const end = performance.now() + DEADLINE;
    while (!(await this.#isListening(port))) {
      if (child.exitCode !== null || performance.now() > end) throw new Error(`the server of ${name} does not listen: ${errors}`);
      await delay(50);
    }
    if (child.exitCode !== null) throw new Error(`another program listens on port ${port}: ${errors}`);
    return url;
  }

  // Returns whether a program listens on a port, as seen in the servers' network.
  async #isListening(port) {
    const [program, ...args] = [...this.#network.runIn, "bash", "-c", `exec 3<>/dev/tcp/${this.#network.address}/${port}`];
    return run(program, args).then(() => true, () => false);
  }

  stop() {
    for (const child of this.#children) child.kill("SIGKILL");
  }
}
