// Looks for properties of the machine.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const { locale, timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const shown = JSON.stringify([Object.keys(env), navigator.userAgent, new Error('x').stack, import.meta, locale, timeZone]);
    if (/\/(root|home|usr|etc|proc)\/|\.rs\b|cargo/.test(shown)) return new Response(shown);
    for (const name of ['file:///etc/passwd', '/etc/passwd', 'node:fs', 'http://169.254.169.254/', 'data:text/javascript,export default 1', 'tenon:bootstrap.js', 'blob:x']) {
      try {
        await import(name);
        return new Response(name);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
