// Waits for five milliseconds, as if for I/O. The isolate is idle during that time.
export default {
  async fetch() {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response("waited\n");
  },
};
