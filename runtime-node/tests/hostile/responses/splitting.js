// Tries to end a header and to begin another, wherever a header is written.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const ends = ['\r\n', '\n', '\r', '\0', '\u010a', '\u010d', '\u2028', '\ud83d\r'];
    for (const end of ends) {
      const text = `a${end}set-cookie: evil`;
      const attempts = [
        () => new Headers({ a: `x${text}` }), () => new Headers({ [text]: 'a' }), () => new Headers([[text, 'a']]),
        () => new Headers().append('a', `x${text}`), () => new Headers().set(text, 'a'), () => new Response('', { headers: { a: `x${text}` } }),
        () => new Response('', { headers: [['a', `x${text}`]] }), () => new Response('', { statusText: text }),
        () => new Response('').headers.append('a', `x${text}`), () => new Request('https://host/', { headers: { a: `x${text}` } }),
        () => new Request('https://host/', { method: text }),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
          return new Response(`${attempt} went through with ${JSON.stringify(end)}`);
        } catch (error) {
          if (!(error instanceof TypeError)) throw error;
        }
      }
      const location = Response.redirect(`https://host/${text}`).headers.get('location');
      if (/[\r\n\0]/.test(location)) return new Response(location);
    }
    return new Response('held');
  },
};
