// Checks that the built-in functions whose work Tenon bounds return the results that the standard
// requires, for short and long inputs.
// expect: answer held
// limits: cpu_ms=20000 wall_ms=30000 memory_mib=256
export default {
  async fetch(request, env, ctx) {
    const check = (is, should) => {
      if (is !== should) throw new Error(`${String(is).slice(0, 200)} is not ${String(should).slice(0, 200)}`);
    };
    const rows = Array.from({ length: 2e4 }, (_, i) => ({ id: i, name: `n\u20ac "${i}" [{,`, 'x\\': [i, [i, {}]] }));
    const text = ` ${JSON.stringify({ a: 1, rows, '': { more: [[], rows.slice(0, 9000)] }, b: [] }, null, 1)} `;
    const parsed = JSON.parse(text);
    check(JSON.stringify(parsed), JSON.stringify({ a: 1, rows, '': { more: [[], rows.slice(0, 9000)] }, b: [] }));
    check(Array.isArray(parsed.rows) && Object.getOwnPropertyNames(parsed.rows).length === 20001, true);
    const ours = JSON.parse(`{"__proto__":${JSON.stringify(rows)},"2":1,"1":2,"2":3}`);
    check(Object.keys(ours).join(), '1,2,__proto__');
    check(ours[2] === 3 && Object.getPrototypeOf(ours) === Object.prototype, true);
    const list = JSON.stringify(rows);
    let revived = 0;
    JSON.parse(list, (key, value, context) => (revived += context.source === '7' ? 1 : 0, value));
    check(revived, 3);
    for (const wrong of [
      `${list}]`, `[${list}`, `[,${list}]`, `[${list},]`, `[1 ${list}]`, `[${list} 1]`, `{${list}}`, `{"a" ${list}}`, `{"a":1${list}}`,
      `[${list}}`, `{"a":${list},}`, `{"a":${list} "b":1}`, `[${list},,1]`, `x${list}`, list.slice(0, -1), `[${list.slice(0, -1)}}]`,
    ]) {
      try {
        JSON.parse(wrong);
      } catch (error) {
        check(error.name, 'SyntaxError');
        continue;
      }
      throw new Error(`${wrong.slice(0, 20)} was parsed`);
    }
    const pair = '\u{1F600}x'.repeat(2 ** 18);
    check(decodeURIComponent(encodeURIComponent(pair)), pair);
    const words = 'ab\u20ac.'.repeat(1e5);
    check(words.split('.').length, 100001);
    check(words.split('').length, 400000);
    check(words.split('.', 3).join(), 'ab\u20ac,ab\u20ac,ab\u20ac');
    check(words.replaceAll('.', '$&!').length, 500000);
    check(words.replace(/b(\u20ac)/g, '$1'), 'a\u20ac.'.repeat(1e5));
    check(words.replace('.', (match, at) => `${match}${at}`).slice(0, 6), 'ab\u20ac.3a');
    check(words.match(/a/g).length, 1e5);
    check([...words.matchAll(/(?<letter>a)/g)][1].groups.letter, 'a');
    check(words.search(/$/), 400000);
    const kept = /a/g;
    kept.lastIndex = 5;
    words.replace(kept, '');
    check(kept.lastIndex, 0);
    const sticky = /ab/y;
    check(words.match(sticky).index, 0);
    check(sticky.lastIndex, 2);
    class Kind extends RegExp {}
    check('a-b'.split(new Kind('-')).join(), 'a,b');
    check(Object.keys({ a: 1, length: 2 ** 30 }).join(), 'a,length');
    check(Object.keys(Object.assign([], { [2 ** 31]: 1 })).join(), '2147483648');
    check(Object.entries('ab').join(), '0,a,1,b');
    check(Reflect.ownKeys(new Uint8Array(2)).join(), '0,1');
    const set = new Set([1, 2]);
    check([...set.union(new Map([[3, 1]]))].join(), '1,2,3');
    check([...set.difference({ size: 1, has: (x) => x === 1, keys: () => [1].values() })].join(), '2');
    check([Object.keys.name, Object.keys.length, RegExp.prototype[Symbol.match].name, JSON.parse.length].join(), 'keys,1,[Symbol.match],2');
    for (const wrong of [() => Object.keys(null), () => Reflect.ownKeys('a'), () => set.union(1), () => RegExp.prototype[Symbol.match].call(1, 'a'), () => JSON.parse('\u0000'.repeat(3))]) {
      try {
        wrong();
      } catch (error) {
        check(error instanceof TypeError || error instanceof SyntaxError, true);
        continue;
      }
      throw new Error(`${wrong} went through`);
    }
    return new Response('held');
  },
};
