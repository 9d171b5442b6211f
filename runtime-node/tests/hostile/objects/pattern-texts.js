// Creates patterns from long texts, from texts of many parts, and from malformed texts.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const texts = [
      Array.from({ length: 800 }, (_, i) => `/:n${i}`).join('').slice(0, 4096), '{'.repeat(4096), '('.repeat(4096), '\\'.repeat(4096), ':'.repeat(4096),
      '[:'.repeat(2000), ']'.repeat(4096), 'https://]]]]:80', 'https://[[[', '*'.repeat(4096), '{a}?'.repeat(1000), '/:a(x)?'.repeat(1), '\u{1F600}'.repeat(1000),
      '//@:@:@:@', ':://::/:/:/', 'a:b@c:d@e', '?#?#', '\0'.repeat(100), '(?'.repeat(100), 'x'.repeat(1e6),
    ];
    for (;;) {
      for (const text of texts) {
        for (const input of [text, { pathname: text }, { hostname: text }, { protocol: text }, { port: text }, { search: text, baseURL: 'https://h' }]) {
          try {
            new URLPattern(input, { ignoreCase: true }).test('https://host/a');
          } catch (error) {
            if (!(error instanceof TypeError)) throw error;
          }
          try {
            new URLPattern().exec(input);
          } catch (error) {
            if (!(error instanceof TypeError)) throw error;
          }
        }
      }
    }
  },
};
