// Runs an asm.js loop, which V8 compiles like WebAssembly.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    function module() {
      "use asm";
      function loop() {
        for (;;);
      }
      return { loop: loop };
    }
    module().loop();
  },
};
