// node:os, node:perf_hooks and node:tty: the parts that portable programs use. A Worker learns
// nothing about the machine: the values are the same everywhere.
//: module
(function (internal) {
  "use strict";

  const { Map } = internal.primordials;

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
    // A Worker has no performance entries besides its own marks and measures, which cannot be
    // observed, and no statistics of its event loop.
    class PerformanceObserver {
      static supportedEntryTypes = [];
      disconnect() {}
      observe() {}
      takeRecords() {
        return [];
      }
    }
    const histogram = () => ({
      count: 0, exceeds: 0, max: 0, mean: 0 / 0, min: 0, percentiles: new Map(), stddev: 0 / 0, disable: () => false, enable: () => false,
      percentile: () => 0, record() {}, recordDelta() {}, reset() {},
    });
    const exported = {
      PerformanceObserver,
      constants: {
        NODE_PERFORMANCE_GC_MAJOR: 4, NODE_PERFORMANCE_GC_MINOR: 1, NODE_PERFORMANCE_GC_INCREMENTAL: 8, NODE_PERFORMANCE_GC_WEAKCB: 16,
      },
      createHistogram: histogram,
      eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
      monitorEventLoopDelay: histogram,
      timerify: (call) => call,
    };
    const names = ["performance", "PerformanceEntry", "PerformanceMark", "PerformanceMeasure"];
    for (let i = 0; i < names.length; i++) exported[names[i]] = lazy(names[i]);
    return exported;
  });

  internal.define("tty", () => {
    const { refused } = internal.node;
    const none = "there is no terminal";
    return {
      ReadStream: function ReadStream() {
        throw refused("tty.ReadStream", none);
      },
      WriteStream: function WriteStream() {
        throw refused("tty.WriteStream", none);
      },
      isatty: () => false,
    };
  });
})
