// Replaces the species of promises to change the result of an import.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const species = [function (executor) {
      executor(() => {}, () => {});
      return { fake: true };
    }, function (executor) {
      executor(() => {}, () => {});
      return new Proxy(Promise.resolve(), {});
    }, 1, function () {
      throw 1;
    }];
    const { constructor } = Promise.prototype;
    for (const one of species) {
      Promise.prototype.constructor = { [Symbol.species]: one };
      let imported;
      try {
        imported = import('worker.js');
      } finally {
        Promise.prototype.constructor = constructor;
      }
      if (!(imported instanceof Promise)) return new Response('no promise');
      imported.catch(() => {});
    }
    return new Response('held');
  },
};
