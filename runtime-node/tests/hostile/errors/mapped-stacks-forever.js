// Formats source-mapped stacks without end.
// expect: cpu_limit_exceeded
export default {
  fetch() {
    Error.stackTraceLimit = 100;
    for (;;) new Error('x').stack;
  },
};
// module: worker.js.map
{"version":3,"sources":["mapped.ts"],"names":[],"mappings":"AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA"}
