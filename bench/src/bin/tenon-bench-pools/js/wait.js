// Five milliseconds of input or output, whatever it may be: the isolate has nothing to do meanwhile.
export default {
  async fetch() {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response("waited\n");
  },
};
