// Obtains the list behind the headers of its response, and writes unchecked values to that list.
// expect: worker_exception
export default {
  async fetch(request, env, ctx) {
    let leaked;
    Object.defineProperty(Array.prototype, '0', {
      configurable: true,
      set(value) {
        leaked = this;
        Object.defineProperty(this, 0, { value, writable: true, enumerable: true, configurable: true });
      },
    });
    const headers = new Headers({ a: 'b' });
    delete Array.prototype[0];
    if (leaked === undefined) throw new Error('no list leaked');
    leaked[1] = 'x\r\nset-cookie: evil=1';
    return new Response('split', { headers });
  },
};
