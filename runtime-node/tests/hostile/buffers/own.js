// Creates a response, and then overwrites and detaches its bytes.
// expect: answer first
export default {
  async fetch(request, env, ctx) {
    const view = new TextEncoder().encode('first');
    const response = new Response(view);
    const other = new Response(view.buffer);
    view.fill(0);
    view.buffer.transfer();
    await other.text();
    setTimeout(() => view.fill(1));
    return response;
  },
};
