// Answers with a used response, with nothing, and with objects that are not responses.
// expect: worker_exception
// requests: 7
export default {
  async fetch(request, env, ctx) {
    const response = new Response('x');
    await response.text();
    globalThis.n = (globalThis.n ?? 0) + 1;
    return [response, undefined, request, Response.error(), Promise.resolve(1), { then: (f) => f(null) }, Object.create(response)][globalThis.n % 7];
  },
};
