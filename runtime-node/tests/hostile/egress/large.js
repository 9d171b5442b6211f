// Passes to native code URLs, a method, headers and a body that are far too large.
// expect: answer refused or memory_limit_exceeded
// limits: cpu_ms=2000 memory_mib=128
// beyond: 100
export default {
  async fetch() {
    let long = 'x';
    while (long.length < 2 ** 24) long += long;
    const tries = [
      () => fetch(`http://10.0.0.1/${long}`),
      () => fetch(`data:,${long}`),
      () => fetch('http://10.0.0.1/', { method: long }),
      () => fetch('http://10.0.0.1/', { headers: { a: long } }),
      () => fetch('http://10.0.0.1/', { headers: Array.from({ length: 20_000 }, (_, i) => [`a${i}`, 'b']) }),
      () => fetch('http://10.0.0.1/', { method: 'POST', body: long }),
      () => fetch(`http://${long.slice(0, 2 ** 16)}/`),
    ];
    for (const attempt of tries) {
      try {
        await attempt();
        return new Response(`let through: ${attempt}`);
      } catch (error) {
        if (!(error instanceof TypeError || error instanceof RangeError)) return new Response(`${error}`);
      }
    }
    return new Response('refused');
  },
};
