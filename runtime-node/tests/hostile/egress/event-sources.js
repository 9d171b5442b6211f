// Opens five hundred event sources to a forbidden address: none of them may reconnect.
// expect: answer closed
// limits: cpu_ms=2000
export default {
  async fetch() {
    const sources = Array.from({ length: 500 }, () => new EventSource('http://10.0.0.1/'));
    await Promise.all(sources.map((source) => new Promise((resolve) => (source.onerror = resolve))));
    return new Response(sources.every((source) => source.readyState === EventSource.CLOSED) ? 'closed' : 'open');
  },
};
