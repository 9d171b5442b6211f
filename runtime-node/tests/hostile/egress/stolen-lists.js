// Obtains the lists that hold a request's headers and a response's head, and changes them.
// expect: answer alive
// limits: cpu_ms=500
const stolen = { __proto__: null };
let count = 0;
Object.defineProperty(Array.prototype, 0, {
  configurable: true,
  set(value) {
    stolen[count++] = this;
    Object.defineProperty(this, 0, { value, writable: true, enumerable: true, configurable: true });
  },
});
Array.prototype.then = function (resolve) {
  stolen[count++] = this;
  resolve(this);
};
Object.prototype.then = undefined;
export default {
  async fetch() {
    const headers = new Headers();
    headers.append('a', 'b');
    const lists = count;
    for (let i = 0; i < lists && i < 20; i++) {
      const list = stolen[i];
      for (const bad of [1, {}, Symbol('x'), 'x\r\ny: z', '\u0000', '\u{1f600}', { toString() { throw 1; } }]) {
        list[1] = bad;
        list[0] = bad;
        await fetch('http://10.0.0.1/', { headers }).catch(() => {});
      }
      list.length = 2 ** 20;
      await fetch('http://10.0.0.1/', { headers }).catch(() => {});
    }
    const response = await fetch('data:,x');
    return new Response(response.status === 200 ? 'alive' : 'broken');
  },
};
