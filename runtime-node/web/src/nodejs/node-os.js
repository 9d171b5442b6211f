// node:os, node:perf_hooks and node:tty: the parts that portable programs use. A Worker learns
// nothing about the machine: the values are the same everywhere.
//: module
(function (internal) {
  "use strict";

  internal.define("os", () => {
    const none = () => [];
    return {
      EOL: "\n",
      constants: { signals: {}, errno: {}, priority: {}, dlopen: {} },
      devNull: "/dev/null",
      arch: () => "x64",
      availableParallelism: () => 1,
      cpus: none,
      endianness: () => "LE",
      freemem: () => 0,
      homedir: () => "/",
      hostname: () => "localhost",
      loadavg: () => [0, 0, 0],
      machine: () => "x86_64",
      networkInterfaces: () => ({}),
      platform: () => "linux",
      release: () => "",
      tmpdir: () => "/tmp",
      totalmem: () => 0,
      type: () => "Linux",
      uptime: () => internal.use("process").uptime(),
      userInfo: () => ({ uid: -1, gid: -1, username: "", homedir: "/", shell: null }),
      version: () => "",
    };
  });

  internal.define("perf_hooks", () => {
    const { lazy } = internal.hooks;
    const exported = { constants: {} };
    const names = ["performance", "PerformanceEntry", "PerformanceMark", "PerformanceMeasure"];
    for (let i = 0; i < names.length; i++) exported[names[i]] = lazy(names[i]);
    return exported;
  });

  internal.define("tty", () => ({ isatty: () => false }));
})
