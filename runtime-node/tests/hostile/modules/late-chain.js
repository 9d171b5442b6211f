// Imports a chain of five thousand modules while it handles a request.
// expect: answer deep or worker_exception
// chain: 5000
// limits: cpu_ms=5000
export default {
  async fetch() {
    try {
      await import('./chain/1.js');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('deep');
  },
};
