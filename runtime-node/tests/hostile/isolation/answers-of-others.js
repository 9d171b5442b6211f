// Responds to an invocation with a Response that another invocation also sends, through a promise
// that the other invocation resolves.
// expect: answer mine or answer theirs or worker_exception
// at once: 6
let waiting = null;
let response = null;
export default {
  async fetch() {
    response ??= new Response('theirs');
    if (waiting === null) return new Promise((resolve) => (waiting = resolve, setTimeout(() => {}, 20)));
    waiting(response);
    waiting = null;
    return response.bodyUsed ? new Response('mine') : response;
  },
};
