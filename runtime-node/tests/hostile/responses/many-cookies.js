// Sends forty thousand cookies, more than a header map can hold.
// expect: worker_exception
// limits: cpu_ms=2000
export default {
  async fetch(request, env, ctx) {
    const headers = new Headers();
    for (let i = 0; i < 40000; i++) headers.append('set-cookie', 'a');
    return new Response('', { headers });
  },
};
