// Parses headers of a part that a regular expression would scan repeatedly.
// expect: answer held
// limits: cpu_ms=200
export default {
  async fetch(request, env, ctx) {
    for (const value of ['"'.repeat(8000), '\\"'.repeat(8000), '; a='.repeat(4000), ';'.repeat(16000), ' '.repeat(16000), 'a="\\'.repeat(3000), ';a=\\'.repeat(3000)]) {
      const body = `--b\r\ncontent-disposition: form-data; ${value}\r\n\r\n\r\n--b--`;
      try {
        await new Response(body, { headers: { 'content-type': 'multipart/form-data; boundary=b' } }).formData();
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
      await new Response('', { headers: { 'content-type': `a/b;${value.slice(0, 8000)}b` } }).blob();
    }
    return new Response('held');
  },
};
