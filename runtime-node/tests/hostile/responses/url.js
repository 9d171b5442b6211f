// Parses URLs of up to several megabytes, and malformed URLs.
// expect: answer held
// limits: cpu_ms=10000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const odd = ['https://host/' + 'x'.repeat(1 << 20), 'https://host/' + '../'.repeat(1 << 18), 'https://' + 'a.'.repeat(1 << 16), 'https://xn--' + 'a'.repeat(1 << 16),
      'https://' + '\u00e4'.repeat(1 << 12), 'https://[' + ':'.repeat(1 << 16) + ']', 'https://host:' + '9'.repeat(1 << 16), '//'.repeat(1 << 16), 'https://host/?' + '&='.repeat(1 << 16),
      'https://' + '@'.repeat(1 << 16) + 'host', 'data:' + '%'.repeat(1 << 16), 'https://0x' + 'f'.repeat(1 << 16), 'file:///' + 'C|/'.repeat(1 << 14), 'https://host\\'.repeat(1 << 12)];
    odd.push(`https://${Array.from({ length: 1 << 20 }, (_, i) => String.fromCharCode(0x4e00 + i % 20000)).join('')}`);
    for (const input of odd) {
      try {
        const url = new URL(input);
        url.searchParams.append('a', 'b');
        url.host = url.hostname = url.port = url.pathname = url.search = url.hash = input;
        url.href.slice(url.origin.length);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
