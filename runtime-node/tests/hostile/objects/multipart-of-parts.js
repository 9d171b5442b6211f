// Parses a body of a hundred thousand parts, which must be refused.
// expect: answer held
// limits: cpu_ms=500 startup_ms=10000 memory_mib=64
const part = '--b\r\ncontent-disposition: form-data; name=n; filename=f\r\n\r\n\r\n';
const body = new TextEncoder().encode(part.repeat(100_000));
export default {
  async fetch(request, env, ctx) {
    try {
      await new Response(body, { headers: { 'content-type': 'multipart/form-data; boundary=b' } }).formData();
    } catch (error) {
      return new Response(/more than 10000 parts/.test(error.message) ? 'held' : error.message);
    }
  },
};
