// node:process: the object `process`, as far as portable programs use it.
//: module
(function (internal) {
  "use strict";

  const {
    BigInt, DateNow, MathTrunc, ObjectDefineProperty, PromisePrototypeThen, PromiseResolve, ReflectApply,
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeEndsWith, StringPrototypeSlice,
    SymbolToStringTag,
  } = internal.primordials;
  const { ops } = internal;

  const run = (callback, args) => {
    try {
      ReflectApply(callback, undefined, args);
    } catch (error) {
      internal.reportError(error);
    }
  };

  internal.define("process", () => {
    const { needFunction, refused } = internal.node;
    const EventEmitter = internal.use("events");
    const began = DateNow();
    const VERSION = "22.19.0";
    const NANO = 10n ** 9n;

    const environment = ops.environment();
    const env = {};
    for (let i = 0; i < environment.length; i += 2) {
      ObjectDefineProperty(env, environment[i], {
        __proto__: null, value: environment[i + 1], writable: true, enumerable: true, configurable: true,
      });
    }

    // The clock is coarse and does not advance within a turn.
    const hrtime = (before = undefined) => {
      const milliseconds = DateNow();
      let seconds = MathTrunc(milliseconds / 1000);
      let nanoseconds = (milliseconds % 1000) * 1e6;
      if (before !== undefined) {
        seconds -= before[0];
        nanoseconds -= before[1];
        if (nanoseconds < 0) {
          seconds -= 1;
          nanoseconds += 1e9;
        }
      }
      return [seconds, MathTrunc(nanoseconds)];
    };
    hrtime.bigint = () => {
      const { 0: seconds, 1: nanoseconds } = hrtime();
      return BigInt(seconds) * NANO + BigInt(nanoseconds);
    };

    // Creates an output stream that writes to the console, which suffices for libraries that only
    // print.
    const output = (log) => ({
      isTTY: false,
      fd: log === "error" ? 2 : 1,
      writable: true,
      write(chunk) {
        let text = typeof chunk === "string" ? chunk : internal.decodeUtf8(chunk);
        if (StringPrototypeEndsWith(text, "\n")) text = StringPrototypeSlice(text, 0, -1);
        internal.console[log](text);
        return true;
      },
    });

    const ending = "a request ends when its handler has answered, by returning a Response or by throwing";
    const process = new EventEmitter();
    const members = {
      title: "tenon",
      arch: "x64",
      platform: "linux",
      argv: ["tenon"],
      argv0: "tenon",
      execArgv: [],
      execPath: "",
      env,
      exitCode: undefined,
      features: {},
      hrtime,
      pid: 1,
      ppid: 0,
      release: { name: "node" },
      stderr: output("error"),
      stdout: output("log"),
      version: `v${VERSION}`,
      versions: { node: VERSION },

      abort() {
        throw refused("process.abort", ending);
      },
      chdir() {
        throw refused("process.chdir", "the working directory is always /; use absolute paths");
      },
      cwd() {
        return "/";
      },
      /** @param {any} [type] */
      emitWarning(warning, type = "Warning") {
        const name = typeof type === "string" ? type : type?.type ?? "Warning";
        internal.console.warn(typeof warning === "string" ? `${name}: ${warning}` : `${warning.name}: ${warning.message}`);
      },
      exit() {
        throw refused("process.exit", ending);
      },
      getBuiltinModule(name) {
        return internal.find(`${name}`);
      },
      cpuUsage: () => ({ user: 0, system: 0 }),
      getegid: () => 0,
      geteuid: () => 0,
      getgid: () => 0,
      getuid: () => 0,
      kill() {
        throw refused("process.kill", "there are no other processes");
      },
      // A Worker learns nothing about the machine.
      memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
      nextTick(callback, ...args) {
        needFunction(callback, "callback");
        PromisePrototypeThen(PromiseResolve(undefined), () => run(callback, args));
      },
      umask: () => 0o022,
      uptime() {
        return (DateNow() - began) / 1000;
      },
    };
    // Packages recognize Node.js by this name.
    ObjectDefineProperty(process, SymbolToStringTag, { __proto__: null, value: "process", configurable: true });
    const names = ReflectOwnKeys(members);
    for (let i = 0; i < names.length; i++) {
      ObjectDefineProperty(process, names[i], ReflectGetOwnPropertyDescriptor(members, names[i]));
    }
    return process;
  });
})
