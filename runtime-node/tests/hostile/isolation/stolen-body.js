// Reads the body of a request that has ended, in the turn of another request.
// expect: answer held
// body: the body
// requests: 3
let kept = null;
export default {
  async fetch(request, env, ctx) {
    if (kept === null) {
      kept = { request, ctx, clone: request.clone() };
      return new Response('held');
    }
    const { request: old, ctx: late, clone } = kept;
    for (const steal of [() => old.text(), () => clone.text(), () => old.clone().text()]) {
      try {
        const text = await steal();
        if (text !== '') return new Response(`read ${text}`);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    late.waitUntil(new Promise(() => {}));
    return new Response(await request.text() === 'the body' ? 'held' : 'lost mine');
  },
};
