// Parses a body that consists of text that is almost a boundary.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 startup_ms=10000 memory_mib=256
const boundary = 'x'.repeat(60);
const body = new TextEncoder().encode(`--${boundary}y\r\ncontent-disposition: form-data; name=n\r\n\r\n${`\r\n--${boundary}`.repeat(3_000)}`);
const headers = { 'content-type': `multipart/form-data; boundary=${boundary}y` };
export default {
  async fetch(request, env, ctx) {
    for (;;) {
      try {
        await new Response(body, { headers }).formData();
        return new Response('parsed');
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
  },
};
