// Uses typed arrays whose species returns a view of another buffer that is too short.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const small = new Uint8Array(1);
    class Small extends Uint8Array {
      static get [Symbol.species]() {
        return function () {
          return small;
        };
      }
    }
    const large = new Small(1000);
    for (const use of [() => large.map((x) => x), () => large.slice(), () => large.filter(() => true), () => large.subarray(1)]) {
      try {
        new TextDecoder().decode(use());
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    if ((await new Response(large).bytes()).length !== 1000) return new Response('short');
    return new Response('held');
  },
};
