#!/usr/bin/env node
// Runs the program in the package for this platform, with the arguments, the input and the output of
// this process, and exits as the program exits.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { basename } = require("node:path");

const NATIVE = `@tenon-dev/${process.platform}-${process.arch}`;
const SOURCE = "https://github.com/tenon-dev/tenon";

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

// Returns the path of the program.
function program() {
  if (!(NATIVE in require("./package.json").optionalDependencies)) {
    fail(`there is no package for ${process.platform}-${process.arch}; build tenon from ${SOURCE}`);
  }
  try {
    return require.resolve(`${NATIVE}/bin/tenon`);
  } catch {
    fail(`the package ${NATIVE} is not installed; install tenon without --omit=optional, and on this platform`);
  }
}

// The program prints the name by which it was called: kubectl calls its plugin `kubectl-tenon`.
const child = spawn(program(), process.argv.slice(2), { argv0: basename(process.argv[1]), stdio: "inherit" });

child.on("error", (error) => fail(`cannot run ${NATIVE}: ${error.message}; tenon needs glibc 2.34 or later`));
child.on("exit", (status, signal) => {
  if (signal === null) process.exit(status);
  // The handlers below are removed, so that the signal terminates this process too.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // This line is reached if the signal does not terminate this process, for example because the
  // shell has started this process with the signal ignored.
  process.exit(128 + constants.signals[signal]);
});

// A terminal sends Ctrl-C to both processes, other senders only to this one. A second signal of the
// same kind has no effect on the program.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
