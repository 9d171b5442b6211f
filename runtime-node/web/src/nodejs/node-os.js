// node:os, node:perf_hooks and node:tty: as much of them as programs ask of whatever they find themselves in. A Worker knows
// nothing of the machine: what would tell of it is the same everywhere.
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
