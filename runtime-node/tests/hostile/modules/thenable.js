// Exports a function `then`, so that the namespace is a thenable.
// expect: answer 1
export function then(resolve) {
  resolve(1);
}
export default {
  async fetch() {
    return new Response(await import('./worker.js'));
  },
};
