// Checks that bounded functions return the results that the standard requires, for short and long
// inputs.
// expect: answer held
// limits: cpu_ms=20000 wall_ms=30000 memory_mib=256
export default {
  async fetch(request, env, ctx) {
    const check = (is, should) => {
      if (is !== should) throw new Error(`${String(is).slice(0, 200)} is not ${String(should).slice(0, 200)}\n${new Error().stack}`);
    };
    const throws = (use, kind) => {
      try {
        use();
      } catch (error) {
        check(error.name, kind);
        return;
      }
      throw new Error(`${use} went through`);
    };
    // Searches.
    const size = 2 ** 17;
    const text = 'a'.repeat(size);
    const wanted = 'b' + 'a'.repeat(2 ** 11);
    const held = text + wanted + text;
    check(held.indexOf(wanted), size);
    check(held.indexOf(wanted, size + 1), -1);
    check(held.includes(wanted), true);
    check(text.includes(wanted), false);
    check(held.lastIndexOf(wanted), size);
    check(held.lastIndexOf(wanted, size - 1), -1);
    check(held.lastIndexOf(wanted, NaN), size);
    check((held + held).lastIndexOf(wanted), held.length + size);
    check((held + held).indexOf(wanted, `${size + 1}`), held.length + size);
    check((text + 'c').indexOf('a'.repeat(2 ** 11) + 'c'), size - 2 ** 11);
    check(('c' + text).lastIndexOf('c' + 'a'.repeat(2 ** 11)), 0);
    check(held.split(wanted).map((part) => part.length).join(), `${size},${size}`);
    check(held.split(wanted, 1).length, 1);
    check(held.replace(wanted, '[$$$&]').length, held.length + 3);
    check((held + held).replaceAll(wanted, (found, at) => `<${at}>`).length, 4 * size + `<${size}><${held.length + size}>`.length);
    check('abcabc'.indexOf('c', 3), 5);
    check('abcabc'.indexOf('', 10), 6);
    check('abcabc'.lastIndexOf('c', 3), 2);
    check('abcabc'.lastIndexOf('c', undefined), 5);
    check('abcabc'.includes('bc', -1), true);
    check('undefined'.indexOf(), 0);
    check(String.prototype.indexOf.call(12345, 34), 2);
    check(String.prototype.lastIndexOf.call([1, 2, 1], 1), 4);
    check('a/b/'.includes('/b/'), true);
    throws(() => 'a'.includes(/a/), 'TypeError');
    throws(() => String.prototype.includes.call(null, ''), 'TypeError');
    const expression = /a/;
    expression[Symbol.match] = false;
    check('/a/'.includes(expression), true);
    // Elements.
    const strings = new Array(2 ** 17).fill(`${'a'.repeat(2 ** 10)}b`);
    strings[77777] = `${'a'.repeat(2 ** 10)}c`;
    const sought = `${'a'.repeat(2 ** 10)}c`;
    check(strings.indexOf(sought), 77777);
    check(strings.indexOf(sought, -2), -1);
    check(strings.includes(sought, 77778), false);
    check(strings.lastIndexOf(sought), 77777);
    check(strings.lastIndexOf(sought, 77776), -1);
    check(strings.lastIndexOf(sought, -2), 77777);
    check([1, NaN, 'a'].includes(NaN), true);
    check([3, 2, 1, 'b', undefined, 'a'].sort().join(), '1,2,3,a,b,');
    const numbers = Array.from({ length: 1e5 }, (_, i) => i);
    check(numbers.sort()[2], 10);
    check(numbers.toSorted()[3], 100);
    check([5, 25, 100, , 1].sort().length, 5);
    check([text + 'b', text + 'a', 'b'].sort()[0].at(-1), 'a');
    // Arrays within arrays.
    class Kind extends Array {}
    check([1, [2, [3, [4]]]].flat().length, 3);
    check([1, [2, [3, [4, [5]]]]].flat(2).length, 4);
    check([1, , [2, , [3]]].flat('Infinity').join(), '1,2,3');
    check([[1]].flat(0)[0].length, 1);
    const wide = new Array(2 ** 11).fill(new Array(1100).fill([[1]]));
    const flattened = wide.flat();
    check(flattened.length, 1100 * 2 ** 11);
    check(flattened[0][0][0], 1);
    check(wide.flat(Infinity)[1100 * 2 ** 11 - 1], 1);
    throws(() => {
      const own = [];
      own[0] = own;
      own.flat(Infinity);
    }, 'RangeError');
    check(new Kind(...wide).flat() instanceof Kind, true);
    check(new Kind(1).concat(new Array(2 ** 22)) instanceof Kind, true);
    check([1, , 2].concat(new Array(2 ** 22), [4], 4, { length: 1, 0: 5, [Symbol.isConcatSpreadable]: true }).at(-1), 5);
    check([1, 2].flatMap((x) => [x, [x]]).length, 4);
    check([1, 2].flatMap(function (x, i, all) { return this + x + i + all.length; }, 10).join(), '13,15');
    throws(() => [].flatMap(1), 'TypeError');
    check(new Kind(1, 2, 3).flat() instanceof Kind, true);
    check(new Kind(1, 2, 3).concat([4]) instanceof Kind, true);
    check([1].concat(2, [3, [4]], { length: 1, 0: 5, [Symbol.isConcatSpreadable]: true }).join(), '1,2,3,4,5');
    check([].concat(new Proxy([1, 2], {})).length, 2);
    check([].concat(new Uint8Array(2)).length, 1);
    check([1].concat(new Array(2 ** 22)).length, 2 ** 22 + 1);
    check(2 ** 22 in [1].concat(new Array(2 ** 22)), false);
    throws(() => Array.prototype.concat.call(null), 'TypeError');
    // Numbers, times and bytes.
    check(parseInt('12px'), 12);
    check(parseInt(' -0x1F'), -31);
    check(Object.is(parseInt('-0'), -0), true);
    check(parseInt('z', 36), 35);
    check(parseInt(`${' '.repeat(1e4)}-0x${'0'.repeat(1e4)}ff,`), -255);
    check(parseInt(`${'0'.repeat(1e4)}12,${'1'.repeat(1e4)}`, 3), 5);
    check(parseInt('9'.repeat(1e4)), Infinity);
    check(Object.is(parseInt(`-${'0'.repeat(1e4)}`, 10), -0), true);
    check(parseInt(`0x${'0'.repeat(1e4)}`, 36), Infinity);
    check(parseInt, Number.parseInt);
    check(parseInt(null, 36), 1112745);
    check(Date.parse('2020-01-01T00:00:00Z'), 1577836800000);
    check(Object.is(Date.parse('2'.repeat(2000)), NaN), true);
    check(Uint8Array.from([1, 2, 3], (x) => x * 2).join(), '2,4,6');
    check(Uint8Array.from({ length: 2, 1: 7 }).join(), '0,7');
    check(Uint8Array.from(new Set([1, 2])).join(), '1,2');
    check(Float32Array.from('123').join(), '1,2,3');
    check(Uint8Array.from(new Uint8Array(3)).length, 3);
    check(Uint8Array.from(new Float32Array(2 ** 21 + 1).fill(2))[2 ** 21], 2);
    throws(() => Uint8Array.from(null), 'TypeError');
    const bytes = new Uint8Array(4);
    bytes.set([1, 2], 1);
    bytes.set('7', 3);
    check(bytes.join(), '0,1,2,7');
    const many = new Float32Array(2 ** 21 + 2);
    many.set(new Array(2 ** 21 + 1).fill('3'), 1);
    check(many[0] + many[2 ** 21 + 1], 3);
    throws(() => many.set(new Array(2 ** 21 + 2), 1), 'RangeError');
    throws(() => bytes.set([1, 2], 3), 'RangeError');
    throws(() => bytes.set(null), 'TypeError');
    check(Uint8Array.fromBase64('AQID').toHex(), '010203');
    // Texts.
    const long = '\u20acx'.repeat(2 ** 20 + 1);
    check(new TextDecoder().decode(new TextEncoder().encode(long)) === long, true);
    check(await new Response(`\ufeff${long}`).text() === long, true);
    check(await new Response(new TextEncoder().encode(`\ufeff${long}`)).text() === long, true);
    check(await new Blob([long]).text() === long, true);
    throws(() => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(2 ** 22).fill(0xe2)), 'TypeError');
    check(new TextDecoder().decode(new DataView(new ArrayBuffer(2 ** 22))).length, 2 ** 22);
    const decoder = new TextDecoder();
    check((decoder.decode(new TextEncoder().encode(long).subarray(0, -2), { stream: true }) + decoder.decode(new Uint8Array([0x78]))).length, long.length - 1 + 1);
    const rows = Array.from({ length: 2e5 }, (_, i) => [i, 'x']);
    check((await new Response(JSON.stringify(rows)).json())[199999][0], 199999);
    // Languages.
    check('a'.localeCompare('b'), -1);
    check('a'.localeCompare('b', ['de', 'en'], { sensitivity: 'base' }), -1);
    check('\u00e4'.localeCompare('z', 'sv') > 0, true);
    check('undefined'.localeCompare(), 0);
    check('\u1e9b\u0323'.normalize('NFKC'), '\u1e69');
    check('e\u0301'.repeat(1e4).normalize().length, 1e4);
    throws(() => 'a'.normalize('x'), 'RangeError');
    check('i'.toLocaleUpperCase('tr'), '\u0130');
    const collator = new Intl.Collator('de');
    check(collator.compare === collator.compare, true);
    check([collator.compare.name, collator.compare.length].join(), ',2');
    check(['b', '\u00e4', 'a'].sort(collator.compare).join(), 'a,\u00e4,b');
    check(collator.compare(), 0);
    check(collator instanceof Intl.Collator && collator.constructor === Intl.Collator, true);
    check(Intl.Collator('de') instanceof Intl.Collator, true);
    class German extends Intl.NumberFormat {}
    check(new German('de').format(1.5), '1,5');
    check(new German('de') instanceof German, true);
    check([Intl.DisplayNames.length, Intl.Locale.length, Intl.Collator.length, Intl.Collator.name].join(), '2,1,0,Collator');
    check(new Intl.NumberFormat([new Intl.Locale('de'), 'en']).format(1.5), '1,5');
    check(new Intl.NumberFormat({ length: 2, 1: 'de' }).format(1.5), '1,5');
    check(new Intl.Locale('de', { region: 'AT' }).toString(), 'de-AT');
    check(new Intl.Locale(new Intl.Locale('de')).toString(), 'de');
    check(Intl.getCanonicalLocales(['EN-us', 'De']).join(), 'en-US,de');
    check(Intl.NumberFormat.supportedLocalesOf('de').join(), 'de');
    check(new Intl.DisplayNames('en', { type: 'region' }).of('DE'), 'Germany');
    check((1234.5).toLocaleString('de'), '1.234,5');
    check([1.5, 2].toLocaleString('de'), '1,5,2');
    check(new Date(0).toLocaleDateString('de', { timeZone: 'UTC' }), '1.1.1970');
    throws(() => new Intl.Collator(null), 'TypeError');
    throws(() => new Intl.Collator('x_y'), 'RangeError');
    throws(() => new Intl.Collator([1]), 'TypeError');
    throws(() => Intl.Locale('de'), 'TypeError');
    throws(() => Intl.Segmenter('de'), 'TypeError');
    return new Response('held');
  },
};
