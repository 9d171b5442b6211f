// Leaves state in its realm that the next realm must not have.
// expect: answer undefined undefined undefined
// state: Reset
// requests: 5
// limits: cpu_ms=500
globalThis.mine ??= 0;
let kept;
export default {
  async fetch(request, env, ctx) {
    const found = `${globalThis.left} ${kept} ${Array.prototype.left}`;
    globalThis.left = kept = Array.prototype.left = 'left';
    return new Response(found);
  },
};
