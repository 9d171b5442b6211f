// Starts real databases for the Workers of the suite, each in an empty directory and on a free port
// of this machine. The programs are those of Debian's packages; for MongoDB's protocol, FerretDB is
// built from its Go module.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { run } from "./project.mjs";

// Time limit for the start of a database, in milliseconds. It is much longer than any start takes.
const DEADLINE = 300_000;

// PostgreSQL and MariaDB refuse to run as root, so they run as the user `nobody`.
const NOBODY = 65_534;
const RUN_AS = process.getuid() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

const FERRETDB = "v1.24.2";

/** A database that cannot be started on this machine. The message says what to install. */
export class Unavailable extends Error {}

// The databases, by the name of the variable that has their URL. Each function gets an empty
// directory and a port, and returns the program to run, its arguments and the URL of the database.
const databases = {
  async POSTGRES(directory, port) {
    const program = debian("postgres", "postgresql");
    const initialize = join(program, "../initdb");
    await run(initialize, ["--pgdata", directory, "--username", "ada", "--auth", "trust", "--no-sync", "--encoding", "UTF8"], RUN_AS);
    const settings = ["listen_addresses=127.0.0.1", `unix_socket_directories=${directory}`, "fsync=off"];
    const args = ["-D", directory, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])];
    return { program, args, url: `postgres://ada@127.0.0.1:${port}/postgres` };
  },

  async MYSQL(directory, port) {
    const program = debian("mariadbd", "mariadb-server");
    const tables = ["--no-defaults", `--datadir=${directory}`, "--auth-root-authentication-method=normal"];
    await run(debian("mariadb-install-db", "mariadb-server"), tables, RUN_AS);
    const args = ["--no-defaults", `--datadir=${directory}`, `--socket=${directory}/socket`, `--port=${port}`, "--bind-address=127.0.0.1"];
    return { program, args, url: `mysql://root@127.0.0.1:${port}/test` };
  },

  async REDIS(directory, port) {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""];
    return { program: debian("redis-server", "redis-server"), args, url: `redis://127.0.0.1:${port}` };
  },

  async MONGODB(directory, port, tools) {
    const program = join(tools, "ferretdb");
    if (!existsSync(program)) {
      await buildFerretDb(tools).catch((error) => {
        throw new Unavailable(`FerretDB cannot be built; install Go: ${error.message}`);
      });
    }
    const state = [`--state-dir=${directory}`, `--sqlite-url=file:${directory}/`];
    const args = ["--handler=sqlite", ...state, `--listen-addr=127.0.0.1:${port}`, "--debug-addr=-", "--telemetry=disable", "--log-level=error"];
    return { program, args, url: `mongodb://127.0.0.1:${port}/` };
  },
};

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

async function isListening(port) {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** The databases of a run, started when a Worker first needs them. */
export class Servers {
  #scratch;
  #started = new Map();
  #children = [];

  constructor(scratch) {
    this.#scratch = scratch;
  }

  /** Returns the URL of a database. Fails with `Unavailable` if this machine lacks its program. */
  url(name) {
    if (!this.#started.has(name)) this.#started.set(name, this.#start(name));
    return this.#started.get(name);
  }

  async #start(name) {
    const directory = mkdtempSync(join(this.#scratch, `${name.toLowerCase()}-`));
    if (RUN_AS.uid) chownSync(directory, RUN_AS.uid, RUN_AS.gid);
    chmodSync(directory, 0o700);
    const tools = join(this.#scratch, "tools");
    mkdirSync(tools, { recursive: true });
    const port = await freePort();
    const { program, args, url } = await databases[name](directory, port, tools);
    const child = spawn(program, args, { ...RUN_AS, cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
    this.#children.push(child);
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (errors = (errors + text).slice(-4096)));
    const end = performance.now() + DEADLINE;
    while (!(await isListening(port))) {
      if (child.exitCode !== null || performance.now() > end) throw new Error(`${program} does not listen: ${errors}`);
      await delay(50);
    }
    return url;
  }

  stop() {
    for (const child of this.#children) child.kill("SIGKILL");
  }
}
