// Replaces built-in iterators with iterators that throw, and removes others.
// expect: answer well
export default {
  async fetch(request, env, ctx) {
    const { prototype } = Array;
    const iterate = prototype[Symbol.iterator];
    const steps = Object.getPrototypeOf([][Symbol.iterator]());
    const { next } = steps;
    prototype[Symbol.iterator] = function* () {
      for (;;) throw new Error('iterated');
    };
    steps.next = () => {
      throw new Error('stepped');
    };
    String.prototype[Symbol.iterator] = Map.prototype[Symbol.iterator] = null;
    let answer;
    try {
      new URL('https://user:word@host:1/path?a=b&c=d#e').searchParams.get('c');
      new TextDecoder().decode(new TextEncoder().encode('text'));
      console.log('%s', [1], { a: 1 }, new Map(), new Error('x'));
      answer = Response.json({ a: [1] });
      answer = new Response('well', { headers: { a: 'b' } });
    } catch (error) {
      answer = new Response(error.message);
    } finally {
      prototype[Symbol.iterator] = iterate;
      steps.next = next;
    }
    return answer;
  },
};
