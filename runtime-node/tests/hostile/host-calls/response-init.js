// Creates a response from an init of getters and conversions, and then overrides the response's
// properties and its prototype.
// expect: answer first
export default {
  async fetch(request, env, ctx) {
    const order = [];
    const init = {
      get headers() {
        order.push('headers');
        return { get a() { return 'b'; } };
      },
      get status() {
        order.push('status');
        return { valueOf: () => 200 + 65536 };
      },
      get statusText() {
        order.push('statusText');
        return 'OK';
      },
    };
    const response = new Response('first', init);
    Object.defineProperty(response, 'body', { value: 'second' });
    Object.defineProperty(response, 'status', { value: 700 });
    Object.setPrototypeOf(response, null);
    init.second = response;
    return response;
  },
};
