// Sends a request to an origin, which responds after twenty milliseconds, and returns the response.
export default {
  async fetch(request, env) {
    const answer = await fetch(env.ORIGIN);
    return new Response(await answer.text(), { status: answer.status });
  },
};
