// Reads the callers and arguments of functions.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const found = [];
    const spy = new Function('found', `return function spy() {
      let f = spy;
      for (let i = 0; i < 20 && f; i++) {
        try { f = f.caller; } catch (error) { break; }
        if (f) found.push(f);
        try { if (f && f.arguments) found.push(f.arguments); } catch (error) {}
      }
      return 1;
    }`)(found);
    new Date({ valueOf: spy });
    new URL({ toString: spy }, 'https://host/');
    new Headers({ get a() { return spy(); } });
    [1].forEach(spy);
    for (const got of found) {
      if (typeof got === 'function' && got.name !== 'spy') return new Response(got.name);
    }
    return new Response('held');
  },
};
