// Evaluates code with the constructors of all kinds of functions. The code must run in the Worker's
// global scope, and must not see the names of the native bootstrap code.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const functions = [() => {}, async () => {}, function* () {}, async function* () {}, class {}, Reflect.get, setTimeout, URL, Response,
      ctx.waitUntil, request.text, console.log, Object.getOwnPropertyDescriptor(Request.prototype, 'url').get];
    for (const { constructor } of functions) {
      const made = constructor('return this')();
      const { value } = (await made?.next?.()) ?? { value: await made };
      if (value !== globalThis && value !== undefined) return new Response(String(value));
    }
    for (const name of ['internal', 'ops', 'hooks', 'primordials', 'handler', 'env', 'id', 'record', 'WRAP', 'CREATE']) {
      if (Function(`return typeof ${name}`)() !== 'undefined') return new Response(name);
    }
    if (String(setTimeout).includes('ops.timerStart') && Function('return typeof set')() !== 'undefined') return new Response('set');
    return new Response('held');
  },
};
