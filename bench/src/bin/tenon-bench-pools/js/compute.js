// Some ten thousand rounds of arithmetic, and nothing to wait for.
export default {
  fetch() {
    let sum = 0;
    for (let i = 0; i < 10_000; i++) sum += Math.sqrt(i) * Math.sin(i);
    return new Response(`${sum}\n`);
  },
};
