// Detaches the buffers of a request and of a clone, while another clone shares their body.
// expect: answer the text
// body: the text
export default {
  async fetch(request, env, ctx) {
    const copy = request.clone();
    const third = copy.clone();
    const buffer = await request.arrayBuffer();
    new Uint8Array(buffer).fill(0);
    buffer.transfer();
    const bytes = await third.bytes();
    bytes.fill(0);
    bytes.buffer.transfer();
    return new Response(await copy.text());
  },
};
