// Logs on behalf of an invocation that has ended, in the turn of another invocation.
// expect: answer said
// limits: cpu_ms=5000
// requests: 3
// lines: 140
let release;
const gate = new Promise((resolve) => (release = resolve));
let count = 0;
export default {
  async fetch() {
    if (count++ === 0) {
      gate.then(() => {
        for (let i = 0; i < 20000; i++) console.log('x'.repeat(1000));
      });
      return new Response('said');
    }
    release();
    return new Response('said');
  },
};
