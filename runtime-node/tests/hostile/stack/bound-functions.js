// Makes V8 compile functions that use, with instanceof, in calls and with new, a function that was
// bound a hundred thousand times.
// expect: answer compiled
// limits: cpu_ms=5000 memory_mib=64
// patch: bound-functions
const first = function () {};
let bound = first;
for (let i = 0; i < 1e5; i++) bound = bound.bind();
const last = bound;
const isInstance = (value) => value instanceof last;
const call = () => last();
const construct = () => new last();

export default {
  async fetch(request, env, ctx) {
    for (const f of [isInstance, call, construct]) {
      for (let i = 0; i < 3000; i++) {
        try {
          f({});
        } catch {
          // The chain of bound functions is too long for the stack.
        }
      }
    }
    return new Response('compiled');
  },
};
