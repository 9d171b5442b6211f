// Asks an origin, which answers after twenty milliseconds, and passes its answer on.
export default {
  async fetch(request, env) {
    const answer = await fetch(env.ORIGIN);
    return new Response(await answer.text(), { status: answer.status });
  },
};
