// Repeatedly matches every character of a string of 2²² characters, a length that is not refused.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    let text = 'x';
    for (let i = 0; i < 22; i++) text += text;
    for (;;) {
      /./g[Symbol.match](text);
      text.replace(/./g, 'yy');
      text.split(/(?:)/);
    }
  },
};
