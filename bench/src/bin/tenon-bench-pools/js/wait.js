// Waits for five milliseconds, as for I/O. The isolate is idle meanwhile.
export default {
  async fetch() {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response("waited\n");
  },
};
