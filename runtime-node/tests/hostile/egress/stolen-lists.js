// Gets hold of the lists that a request's headers and a response's head are kept in, and puts other things there.
// expect: answer alive
const stolen = [];
Object.defineProperty(Array.prototype, 0, {
  configurable: true,
  set(value) {
    stolen.push(this);
    Object.defineProperty(this, 0, { value, writable: true, enumerable: true, configurable: true });
  },
});
Array.prototype.then = function (resolve) {
  stolen.push(this);
  resolve(this);
};
Object.prototype.then = undefined;
export default {
  async fetch() {
    const headers = new Headers();
    headers.append('a', 'b');
    for (const list of stolen) {
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
