// The Worker that every contender serves. It parses its URL, as nearly every Worker does, and
// answers a short text.
export default {
  fetch(request) {
    const url = new URL(request.url);
    return new Response(`Hello from ${url.pathname}\n`);
  },
};
