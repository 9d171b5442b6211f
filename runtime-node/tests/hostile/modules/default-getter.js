// A default export whose parts are getters, which change.
// expect: worker_exception or start worker_start_failed
let asked = 0;
export default new Proxy({}, {
  get(_, key) {
    if (key === 'then') return undefined;
    return asked++ ? 1 : () => new Response('x');
  },
});
