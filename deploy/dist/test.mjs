// Tests the files that `build` makes: `node --test deploy/dist/test.mjs`, which `make test-dist` runs
// after it has built the programs. The programs are those of target/debug, because a release build
// takes minutes longer; otherwise, the files are the same. TENON_DIST_PROFILE=release takes those of
// target/release. `charts/tests` tests the charts.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../..");
const BINARIES = join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), process.env.TENON_DIST_PROFILE ?? "debug");
const EXAMPLE = join(ROOT, "examples/hello");
const VERSION = /^version = "(.*)"$/m.exec(readFileSync(join(ROOT, "Cargo.toml"), "utf8"))[1];
const SERVERS = ["tenon-operator", "tenon-router", "tenon-runtime-node"];
const PLATFORM = process.arch === "arm64" ? "aarch64-linux" : "x86_64-linux";
const MAIN = `tenon-${VERSION}-npm.tgz`;
const NATIVE = `tenon-${VERSION}-npm-linux-${process.arch}.tgz`;
const MACHINE = process.arch === "arm64" ? "arm64" : "amd64";

// Time limit of every wait, in milliseconds. It is much longer than any wait takes.
const DEADLINE = 1_800_000;

// The commit, and whether there are uncommitted changes, when the builds begin.
const git = (...args) => spawnSync("git", args, { cwd: ROOT, encoding: "utf8" }).stdout.trim();
const COMMIT = git("rev-parse", "HEAD");
const CHANGED = git("status", "--porcelain") !== "";
const EPOCH = Number(process.env.SOURCE_DATE_EPOCH ?? git("log", "-1", "--format=%ct"));

const scratch = mkdtempSync(join(tmpdir(), "tenon-dist-"));
const dist = join(scratch, "dist");
const again = join(scratch, "again");

// Creates an empty directory.
const empty = (name) => mkdtempSync(join(scratch, `${name}-`));

// Runs a program to its end, and returns its status and what it wrote.
function run(program, args, options = {}) {
  const done = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 28, timeout: DEADLINE, ...options });
  if (done.error) throw done.error;
  return { status: done.status, output: done.stdout, errors: done.stderr };
}

// Runs a program that must succeed, and returns what it wrote to its standard output.
function output(program, args, options) {
  const done = run(program, args, options);
  assert.equal(done.status, 0, `${program} ${args.join(" ")}: ${done.errors}`);
  return done.output;
}

async function build(out, env) {
  const args = ["--binaries", BINARIES, "--out", out, "--level", "1", "--allow-changes"];
  const child = spawn(join(HERE, "build"), args, { env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
  const [status] = await once(child, "close");
  assert.equal(status, 0, errors);
}

// The builds differ only in their time zone and locale. Both use SOURCE_DATE_EPOCH, or else the
// time of the commit, or else 0.
before(() => Promise.all([build(dist, {}), build(again, { TZ: "Asia/Tokyo", LC_ALL: "C" })]), { timeout: DEADLINE });
after(() => rmSync(scratch, { recursive: true, force: true }));

const sums = (folder) => readFileSync(join(folder, "SHA256SUMS"), "utf8");
const json = (name) => JSON.parse(readFileSync(join(dist, name), "utf8"));
const files = () => readdirSync(dist).sort();
const sha256 = (file) => createHash("sha256").update(readFileSync(file)).digest("hex");

// Unpacks an archive of `dist` into a new directory, without its first directory.
function unpack(name) {
  const folder = empty("unpacked");
  output("tar", ["--extract", "--file", join(dist, name), "--directory", folder, "--strip-components", "1"]);
  return folder;
}

// Asserts that a prefix such as /usr contains the command line: the program, its link for kubectl,
// manual pages and completions. `zsh` is the directory of zsh completions below share/zsh.
function assertHasCommand(prefix, zsh) {
  assert.equal(output(join(prefix, "bin/tenon"), ["--version"]), `tenon ${VERSION}\n`);
  assert.match(output(join(prefix, "bin/kubectl-tenon"), ["deploy", "--help"]), /Usage: kubectl tenon deploy/);
  const pages = readdirSync(join(prefix, "share/man/man1")).map((name) => name.replace(/\.gz$/, ""));
  for (const page of ["tenon.1", "tenon-dev.1", "tenon-secret-put.1"]) assert.ok(pages.includes(page), page);
  assert.ok(!pages.includes("tenon-man.1"));
  const completions = ["bash-completion/completions/tenon", "fish/vendor_completions.d/tenon.fish", `zsh/${zsh}/_tenon`];
  for (const path of completions) assert.match(readFileSync(join(prefix, "share", path), "utf8"), /rollback/);
}

// ---- All files

test("two builds yield the same bytes", () => {
  assert.equal(sums(again), sums(dist));
});

test("the checksums name every other file, and match", () => {
  const named = sums(dist).trimEnd().split("\n").map((line) => line.slice(66));
  assert.deepEqual([...named, "SHA256SUMS"].sort(), files());
  output("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: dist });
});

test("the provenance names every file that was made, and what it was made of", () => {
  const name = `tenon-${VERSION}-provenance.json`;
  const { subject, predicateType, predicate } = json(name);
  assert.equal(predicateType, "https://slsa.dev/provenance/v1");
  assert.deepEqual(subject.map(({ name }) => name), files().filter((file) => file !== name && file !== "SHA256SUMS"));
  for (const { name, digest } of subject) assert.equal(digest.sha256, sha256(join(dist, name)));
  const [source, ...materials] = predicate.buildDefinition.resolvedDependencies;
  assert.deepEqual(
    [source.digest, source.annotations],
    CHANGED ? [undefined, { uncommittedChanges: true }] : [{ gitCommit: COMMIT }, undefined],
  );
  assert.equal(materials.find(({ name }) => name === "Cargo.lock").digest.sha256, sha256(join(ROOT, "Cargo.lock")));
});

test("the files in an archive have the time of the commit and no owner of the machine", () => {
  const expected = new Date(EPOCH * 1000).toISOString().slice(0, 19).replace("T", " ");
  const archives = files().filter((name) => /\.(tar\.gz|tgz)$/.test(name) && !name.endsWith("-debug.tar.gz"));
  for (const name of archives) {
    const format = ["--verbose", "--full-time", "--numeric-owner", "--utc"];
    const list = output("tar", ["--list", ...format, "--file", join(dist, name)]);
    for (const line of list.trimEnd().split("\n")) {
      const [, owner, , day, clock] = line.split(/ +/);
      assert.equal(owner, "0/0", line);
      assert.equal(`${day} ${clock}`, expected, line);
    }
  }
});

// ---- Archives

test("the archive of the command line can be unpacked to a prefix", () => {
  assertHasCommand(unpack(`tenon-${VERSION}-${PLATFORM}.tar.gz`), "site-functions");
});

test("each server has an archive with a program that runs", () => {
  for (const name of SERVERS) {
    const folder = unpack(`${name}-${VERSION}-${PLATFORM}.tar.gz`);
    assert.equal(output(join(folder, "bin", name), ["--version"]), `${name} ${VERSION}\n`);
    assert.ok(existsSync(join(folder, "share/doc", name, "LICENSE")));
  }
});

test("the debug information of a program has the program's build id and is not in the program", () => {
  const name = "tenon-router";
  const program = join(unpack(`${name}-${VERSION}-${PLATFORM}.tar.gz`), "bin", name);
  const debug = join(unpack(`${name}-${VERSION}-${PLATFORM}-debug.tar.gz`), `${name}.debug`);
  const id = (file) => /Build ID: (\w+)/.exec(output("readelf", ["--notes", file]))[1];
  assert.equal(id(program), id(debug));
  const sections = (file) => output("readelf", ["--section-headers", "--wide", file]);
  assert.match(sections(program), /\.gnu_debuglink/);
  assert.doesNotMatch(sections(program), /\.debug_info|\.symtab/);
  assert.match(sections(debug), /\.debug_line/);
});

test("the bill of materials of a program lists the crates that are linked into it", () => {
  const crates = (name) => json(`${name}-${VERSION}-${PLATFORM}.spdx.json`).packages.map(({ name }) => name);
  assert.ok(crates("tenon").includes("v8") && crates("tenon-runtime-node").includes("v8"));
  assert.ok(crates("tenon-router").includes("hyper") && !crates("tenon-router").includes("v8"));
  assert.ok(!crates("tenon").includes("proptest"), "a dependency of tests is listed");
});

test("the licenses of everything in the programs accompany them", () => {
  const folder = unpack(`tenon-${VERSION}-${PLATFORM}.tar.gz`);
  const notices = readFileSync(join(folder, "share/doc/tenon/THIRD-PARTY"), "utf8");
  for (const crate of json(`tenon-${VERSION}-${PLATFORM}.spdx.json`).packages.filter(({ externalRefs }) => externalRefs)) {
    assert.ok(notices.includes(`\n    ${crate.name} ${crate.versionInfo}  `), crate.name);
  }
  assert.match(notices, /Copyright \(c\) .*Tokio Contributors/);
  assert.match(notices, /the V8 project authors/);
});

test("a program that needs a library other than the promised ones is refused", () => {
  const { status, errors } = run(join(HERE, "requirements"), [output("which", ["dpkg-deb"]).trim()]);
  assert.equal(status, 1);
  assert.match(errors, /needs lib\S+, which a release does not promise/);
});

// ---- npm

// Returns an environment in which npm has no configuration, no cache and no network.
const offline = () => {
  const npm = { npm_config_cache: empty("cache"), npm_config_offline: "true", npm_config_update_notifier: "false" };
  return { ...process.env, HOME: empty("home"), ...npm };
};

// Installs packages of `dist` into an empty project.
function install(packages) {
  const project = empty("project");
  const env = offline();
  writeFileSync(join(project, "package.json"), "{}\n");
  output("npm", ["install", "--no-audit", "--no-fund", ...packages.map((name) => join(dist, name))], { cwd: project, env });
  return join(project, "node_modules/.bin");
}

// Starts a command that serves the example, waits for its answer, and sends `signal` to the process
// or group that `receiver` derives from the process id. Returns the milliseconds until the answer,
// the exit code and signal of the process, and the port.
async function serve(program, args, options, signal, receiver) {
  const start = performance.now();
  const flags = ["dev", "--listen", "127.0.0.1:0", EXAMPLE];
  const child = spawn(program, [...args, ...flags], { ...options, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const ended = once(child, "exit");
    let port;
    for await (const line of createInterface({ input: child.stdout })) {
      port ??= /^Tenon serves on .*:(\d+)/.exec(line)?.[1];
      if (line.startsWith("Ready")) break;
    }
    child.stdout.resume();
    assert.equal(await answer(port), "Hello from localhost\n");
    const elapsed = performance.now() - start;
    process.kill(receiver(child.pid), signal);
    return { elapsed, ended: await ended, port };
  } finally {
    // Ends the processes of the group that are left because the test has failed.
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // There is none.
    }
  }
}

// Returns the body of the response to a request to a port of this machine.
async function answer(port) {
  const request = get({ host: "127.0.0.1", port, path: "/", headers: { host: "localhost" }, agent: false });
  const [response] = await once(request, "response");
  return (await response.setEncoding("utf8").toArray()).join("");
}

test("npx serves an example from the packages alone", { timeout: DEADLINE }, async (t) => {
  const packages = [NATIVE, MAIN].flatMap((name) => ["--package", join(dist, name)]);
  const options = { cwd: empty("anywhere"), env: offline() };
  // As Ctrl-C does, the signal reaches all processes.
  const served = await serve("npx", ["--yes", ...packages, "--", "tenon"], options, "SIGINT", (pid) => -pid);
  t.diagnostic(`${(served.elapsed / 1000).toFixed(1)} s from npx to the answer, without a cache`);
  await assert.rejects(answer(served.port), { code: "ECONNREFUSED" });
});

test("an installed package passes a signal on, and exits as the program exits", { timeout: DEADLINE }, async () => {
  const bin = install([NATIVE, MAIN]);
  const { ended } = await serve(join(bin, "tenon"), [], {}, "SIGTERM", (pid) => pid);
  assert.deepEqual(ended, [0, null]);
  const { status, errors } = run(join(bin, "tenon"), ["check", "/nonexistent"]);
  assert.equal(status, 1, errors);
  assert.match(output(join(bin, "kubectl-tenon"), ["tail", "--help"]), /Usage: kubectl tenon tail/);
});

test("without the package for the platform, the error names it", () => {
  const { status, errors } = run(join(install([MAIN]), "tenon"), ["--version"]);
  assert.equal(status, 1);
  assert.match(errors, /^error: the package @tenon-dev\/linux-\S+ is not installed; install tenon without --omit=optional/);
});

// ---- Debian

const deb = () => join(dist, `tenon_${VERSION.replace("-", "~")}_${MACHINE}.deb`);

test("the Debian package installs the command into an empty root", () => {
  const root = empty("root");
  for (const folder of ["info", "updates", "triggers"]) mkdirSync(join(root, "var/lib/dpkg", folder), { recursive: true });
  for (const file of ["status", "available"]) writeFileSync(join(root, "var/lib/dpkg", file), "");
  // The libraries are those of the machine.
  const flags = [`--root=${root}`, "--log=/dev/null", "--force-depends", "--force-not-root"];
  const dpkg = (...args) => output("dpkg", [...flags, ...args]);
  dpkg("--install", deb());
  assert.match(dpkg("--status", "tenon"), /^Status: install ok installed$/m);
  assert.equal(dpkg("--verify", "tenon"), "");
  assertHasCommand(join(root, "usr"), "vendor-completions");
  assert.match(output("gzip", ["--decompress", "--stdout", join(root, "usr/share/man/man1/tenon.1.gz")]), /^\.TH tenon 1/m);
});

test("the Debian package depends on the libraries of the program, and its files belong to root", () => {
  const field = (name) => output("dpkg-deb", ["--field", deb(), name]);
  assert.match(field("Depends"), /^libc6 \(>= 2\.\d+\), libgcc-s1, libstdc\+\+6 \(>= 5\)\n$/);
  assert.equal(field("Version"), `${VERSION.replace("-", "~")}\n`);
  for (const line of output("dpkg-deb", ["--contents", deb()]).trimEnd().split("\n")) assert.match(line, / root\/root /);
});

// ---- Images and charts

test("an image has the release's version and the program of the archive", () => {
  const name = "tenon-router";
  const layout = empty("layout");
  output("tar", ["--extract", "--file", join(dist, `${name}-${VERSION}-image-${MACHINE}.tar`), "--directory", layout]);
  const blob = ({ digest }) => join(layout, "blobs", digest.replace(":", "/"));
  const read = (file) => JSON.parse(readFileSync(file, "utf8"));
  const [entry] = read(join(layout, "index.json")).manifests;
  assert.equal(entry.annotations["io.containerd.image.name"], `ghcr.io/tenon-dev/${name}:${VERSION}`);
  const manifest = read(blob(entry));
  assert.equal(read(blob(manifest.config)).config.Labels["org.opencontainers.image.version"], VERSION);
  output("tar", ["--extract", "--file", blob(manifest.layers[0]), "--directory", layout, `usr/bin/${name}`]);
  const packed = join(unpack(`${name}-${VERSION}-${PLATFORM}.tar.gz`), "bin", name);
  assert.equal(sha256(join(layout, "usr/bin", name)), sha256(packed));
});

test("the charts have the release's version and images", () => {
  for (const chart of ["tenon", "tenon-crds"]) {
    const text = readFileSync(join(unpack(`${chart}-${VERSION}.tgz`), "Chart.yaml"), "utf8");
    assert.match(text, new RegExp(`^appVersion: ${VERSION}$`, "m"));
    assert.match(text, new RegExp(`^version: ${VERSION}$`, "m"));
  }
});

// ---- Refusals

test("the build fails if a program is missing", () => {
  const args = ["--binaries", empty("none"), "--out", empty("out"), "--allow-changes"];
  const { status, errors } = run(join(HERE, "build"), args);
  assert.equal(status, 1);
  assert.match(errors, /tenon: no such program; build it with make dist, or set --binaries DIR/);
});

test("a directory with other files is not overwritten", () => {
  const out = empty("out");
  writeFileSync(join(out, "notes.txt"), "mine");
  const { status, errors } = run(join(HERE, "build"), ["--binaries", BINARIES, "--out", out, "--allow-changes"]);
  assert.equal(status, 1);
  assert.match(errors, /contains notes\.txt; remove the files that are not part of a release, or set --out DIR/);
  assert.ok(statSync(join(out, "notes.txt")).isFile());
});
