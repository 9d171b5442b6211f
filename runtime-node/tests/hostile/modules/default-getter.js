// Exports a proxy that returns a function for the first property that is read and a number for all
// later reads: each property must be read only once.
// expect: answer x
let asked = 0;
export default new Proxy({}, {
  get(_, key) {
    if (key === 'then') return undefined;
    return asked++ ? 1 : () => new Response('x');
  },
});
