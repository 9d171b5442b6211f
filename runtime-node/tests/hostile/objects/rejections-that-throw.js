// Throws, rejects and reports within handlers of rejections and errors.
// expect: answer held
// limits: cpu_ms=5000 wall_ms=10000
// lines: 400
export default {
  async fetch(request, env, ctx) {
    const again = () => {
      Promise.reject(new Error('again'));
      reportError(new Error('reported'));
      throw new Error('thrown');
    };
    addEventListener('unhandledrejection', again);
    addEventListener('rejectionhandled', again);
    addEventListener('error', again);
    onerror = onunhandledrejection = onrejectionhandled = again;
    const late = Promise.reject(new Error('late'));
    reportError(new Error('first'));
    await new Promise((resolve) => setTimeout(resolve, 1));
    await late.catch(() => {});
    return new Response('held');
  },
};
