// Reads the functions and objects behind the frames of the call stack.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    Error.stackTraceLimit = Infinity;
    const found = [];
    Error.prepareStackTrace = (error, frames) => {
      for (const frame of frames) {
        for (const method of ['getThis', 'getFunction', 'getTypeName', 'getEvalOrigin', 'getPromiseIndex']) {
          try {
            const got = frame[method]?.();
            if ((typeof got === 'object' && got !== null) || typeof got === 'function') found.push([frame.getFileName(), got]);
          } catch {}
        }
      }
      return frames;
    };
    // The function `sloppy` is in sloppy mode, because V8 hides the functions of strict frames.
    const sloppy = new Function('return function sloppy() { new Error("x").stack; return 1; }')();
    const value = { valueOf: sloppy, toString: sloppy };
    const calls = [() => new Date(value), () => new ArrayBuffer(value), () => new URL(value, 'https://host/'), () => new Headers({ a: value }),
      () => setTimeout(() => {}, value), () => [1, 2].map(sloppy), () => [2, 1].sort(sloppy), () => new Response(value),
      () => addEventListener('error', sloppy), () => reportError(new Error('x')), () => console.log(new Error('y')),
      () => new Proxy({}, { get: sloppy }).x, () => Promise.all([{ then: sloppy }]), () => queueMicrotask(sloppy)];
    for (const call of calls) {
      try {
        call();
      } catch (error) {
        error.stack;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
    for (const [file, got] of found) {
      if (file?.startsWith('tenon:')) return new Response(`${file}: ${String(got).slice(0, 80)}`);
      if (typeof got === 'object' && got !== null && ('ops' in got || 'respond' in got)) return new Response('the operations');
      if (got === Date || typeof got === 'function' && /native code/.test(got) && got.name === 'Date') return new Response('the clock');
    }
    return new Response('held');
  },
};
