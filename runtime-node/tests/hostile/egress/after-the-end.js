// Keeps objects of one invocation and uses them in the next.
// expect: answer first or answer ended
// requests: 3
let kept;
export default {
  async fetch() {
    if (kept === undefined) {
      kept = {
        begun: fetch('http://10.0.0.1/').catch(() => 'ended'),
        response: await fetch('data:,x'),
        source: new EventSource('http://10.0.0.1/'),
      };
      return new Response('first');
    }
    kept.source.close();
    await kept.response.text().catch(() => {});
    const end = await Promise.race([kept.begun, scheduler.wait(50)]);
    return new Response(end ?? 'ended');
  },
};
