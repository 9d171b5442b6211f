// Sends ten thousand headers.
// expect: worker_exception
// limits: cpu_ms=2000
// logs: headers are larger
export default {
  async fetch(request, env, ctx) {
    const headers = new Headers();
    for (let i = 0; i < 10000; i++) headers.append(`x-${i}`, 'y');
    return new Response('', { headers });
  },
};
