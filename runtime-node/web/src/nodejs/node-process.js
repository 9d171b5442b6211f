// node:process and node:timers.
//: module
(function (internal) {
  "use strict";

  const {
    BigInt, DateNow, MathTrunc, ObjectDefineProperty, Promise, PromisePrototypeThen, PromiseResolve, ReflectApply,
    ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, StringPrototypeEndsWith, StringPrototypeSlice,
  } = internal.primordials;
  const { ops } = internal;
  const { clearInterval, clearTimeout, setInterval, setTimeout } = internal.platform;

  const run = (callback, args) => {
    try {
      ReflectApply(callback, undefined, args);
    } catch (error) {
      internal.reportError(error);
    }
  };

  // ---- Timers

  internal.define("timers", () => {
    const { abortError, needFunction, needSignal } = internal.node;

    class Immediate {
      #timer;
      constructor(timer) {
        this.#timer = timer;
      }
      // A timer never keeps an invocation alive, so `ref` and `unref` have no effect.
      ref() {
        return this;
      }
      unref() {
        return this;
      }
      hasRef() {
        return false;
      }
      static clear(immediate) {
        if (immediate !== null && typeof immediate === "object" && #timer in immediate) clearTimeout(immediate.#timer);
      }
    }
    const { clear } = Immediate;
    delete /** @type {any} */ (Immediate).clear;

    const setImmediate = (callback, ...args) => {
      needFunction(callback, "callback");
      return new Immediate(setTimeout(() => run(callback, args), 0));
    };
    const clearImmediate = (immediate) => clear(immediate);

    // Returns a promise of `value`. `begin(resolve)` starts the operation; if the signal aborts,
    // `end(begun)` cancels it.
    const promiseFor = (value, options, begin, end) => {
      const signal = options?.signal;
      return new Promise((resolve, reject) => {
        if (signal === undefined) {
          begin(() => resolve(value));
          return;
        }
        needSignal(signal, "options.signal");
        const { isAborted, onAbort } = internal.abort();
        if (isAborted(signal)) {
          reject(abortError(signal));
          return;
        }
        const begun = begin(() => {
          forget();
          resolve(value);
        });
        const forget = onAbort(signal, () => {
          end(begun);
          reject(abortError(signal));
        });
      });
    };

    const promises = {
      setTimeout(delay, value, options) {
        return promiseFor(value, options, (resolve) => setTimeout(resolve, delay), clearTimeout);
      },
      setImmediate(value, options) {
        return promiseFor(value, options, (resolve) => setTimeout(resolve, 0), clearTimeout);
      },
      async *setInterval(delay, value, options) {
        for (;;) yield await promises.setTimeout(delay, value, options);
      },
      scheduler: {
        wait: (delay, options) => promises.setTimeout(delay, undefined, options),
        yield: () => promises.setImmediate(),
      },
    };

    return { clearImmediate, clearInterval, clearTimeout, promises, setImmediate, setInterval, setTimeout };
  });

  // ---- The process

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
        throw refused("process.chdir", "there are no files");
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
      kill() {
        throw refused("process.kill", "there are no other processes");
      },
      nextTick(callback, ...args) {
        needFunction(callback, "callback");
        PromisePrototypeThen(PromiseResolve(undefined), () => run(callback, args));
      },
      uptime() {
        return (DateNow() - began) / 1000;
      },
    };
    const names = ReflectOwnKeys(members);
    for (let i = 0; i < names.length; i++) {
      ObjectDefineProperty(process, names[i], ReflectGetOwnPropertyDescriptor(members, names[i]));
    }
    return process;
  });
})
