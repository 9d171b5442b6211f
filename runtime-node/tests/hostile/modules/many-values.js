// Imports three hundred modules of each kind repeatedly.
// expect: answer held
// limits: cpu_ms=4000
// many: 300
export default {
  async fetch() {
    for (let round = 0; round < 3; round++) {
      const imports = [];
      for (let i = 1; i <= 300; i++) {
        for (const kind of ['json', 'txt', 'bin']) imports.push(import(`./many/${i}.${kind}`));
        imports.push(import(`./many/${i}.json`, { with: { type: 'text' } }));
      }
      const values = await Promise.all(imports);
      const last = values.slice(-4).map((module) => module.default);
      if (last[0] !== 300 || last[1] !== '300' || last[2].byteLength !== 3 || last[3] !== '300') return new Response(`${last}`);
      if (new Set(values).size !== 1200) return new Response('one for many');
    }
    return new Response('held');
  },
};
