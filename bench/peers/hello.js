// The Worker that every contender serves. It parses the URL of the request, as nearly every Worker
// does, and responds with a short text.
export default {
  fetch(request) {
    const url = new URL(request.url);
    return new Response(`Hello from ${url.pathname}\n`);
  },
};
