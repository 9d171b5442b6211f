// Receivers and arguments of calls: values of extreme sizes and shapes, each created on demand. A
// value is a receiver of functions of the class under which it is listed, and an argument of any
// function.

const halves = (text, times) => {
  for (let i = 0; i < times; i++) text += text;
  return text;
};
const nested = (depth) => {
  let list = [];
  for (let i = 0; i < depth; i++) list = [list, list];
  return list;
};
const deep = (depth) => {
  let list = [];
  for (let i = 0; i < depth; i++) list = [list];
  return list;
};
const circle = () => {
  const list = [1];
  list.push(list, list);
  return list;
};
const variants = (count) => 'de-' + Array.from({ length: count }, (_, i) => `a${1e4 + i}`).join('-');
const extensions = (count) => 'de-u' + '-co-phonebk'.repeat(count);
const lazy = function* () {
  for (let i = 0; ; i++) yield i;
};
const lying = () => {
  let asked = 0;
  return new Proxy([], { get: (target, key) => (key === 'length' ? (asked++ ? 2 ** 30 : 1) : target[key]) });
};

export const VALUES = {
  String: [
    () => '', () => 'a', () => 'ab'.repeat(2 ** 8), () => 'a'.repeat(2 ** 18), () => 'a'.repeat(2 ** 20) + 'b', () => 'b' + 'a'.repeat(2 ** 17),
    () => 'a'.repeat(2 ** 22), () => 'a'.repeat(2 ** 24), () => 'a'.repeat(2 ** 28), () => halves('ab', 24), () => halves('\u20ac', 20),
    () => 'e' + '\u0301\u0323'.repeat(2 ** 16), () => '\u0e01\u0e34'.repeat(2 ** 18), () => '\ud83d'.repeat(2 ** 18), () => '\u{1f468}\u200d'.repeat(2 ** 16),
    () => '\u1100'.repeat(2 ** 18), () => '\ufdfa'.repeat(2 ** 18), () => '\u0130\u00df'.repeat(2 ** 18), () => '('.repeat(2 ** 20), () => '['.repeat(2 ** 20),
    () => '{"a":'.repeat(2 ** 18), () => '9'.repeat(2 ** 22), () => '9'.repeat(2 ** 16), () => '0x' + 'f'.repeat(2 ** 22), () => '1e' + '9'.repeat(2 ** 18),
    () => '%41'.repeat(2 ** 20), () => '$&$`$\''.repeat(2 ** 14), () => '$1'.repeat(2 ** 18), () => 'a,'.repeat(2 ** 20), () => ' '.repeat(2 ** 24),
    () => '\n'.repeat(2 ** 20), () => '\0'.repeat(2 ** 20), () => 'QUJD'.repeat(2 ** 20), () => 'de', () => 'zh-u-co-pinyin', () => variants(3e4), () => variants(100),
    () => extensions(1e4), () => 'de-' + 'x-abc'.repeat(2 ** 12), () => '2020-01-01T00:00:00Z', () => '2020-01-01T00:00:00.' + '0'.repeat(2 ** 20),
    () => '1 ' + '()'.repeat(2 ** 20), () => '+' + '0'.repeat(2 ** 20), () => '(?:a?){30}'.repeat(2 ** 10), () => '(?<a>'.repeat(2 ** 12),
    () => Array.from({ length: 1e4 }, (_, i) => `(?<a${i}>)`).join(''), () => '[a-z&&\\p{L}]'.repeat(2 ** 10), () => '\\p{RGI_Emoji}'.repeat(2 ** 8), () => 'a|'.repeat(2 ** 18),
    () => 'NFD', () => 'NFKC', () => 'gmsuy', () => 'v', () => 'language', () => 'utf-8', () => 'gb18030', () => 'base64', () => 'length', () => 'constructor',
    () => 'https://host/' + 'a/../'.repeat(2 ** 18), () => 'https://' + 'a.'.repeat(2 ** 16), () => 'a=b&'.repeat(2 ** 18), () => ':a/'.repeat(2 ** 12), () => 'data:,' + 'a'.repeat(2 ** 20),
    () => new String('a'.repeat(2 ** 22)),
  ],
  Number: [
    () => 0, () => -0, () => 1, () => -1, () => 0.1, () => NaN, () => Infinity, () => -Infinity, () => 2 ** 16, () => 2 ** 20, () => 2 ** 26, () => 2 ** 29 - 24,
    () => 2 ** 30, () => 2 ** 31, () => 2 ** 32 - 1, () => 2 ** 32, () => 2 ** 53 - 1, () => 1e308, () => 5e-324, () => 100, () => 36, () => 3, () => 1e21,
  ],
  BigInt: [() => 0n, () => -1n, () => 2n ** 64n, () => 2n ** 65536n, () => 2n ** 1048576n - 1n, () => -(3n ** 200000n)],
  Boolean: [() => true, () => false],
  Symbol: [() => Symbol.iterator, () => Symbol('a'.repeat(2 ** 20)), () => Symbol.for('a')],
  Function: [
    () => () => 1, () => (x) => x, () => Boolean, () => String, () => Number, () => Array, () => Object, () => (a, b) => (a < b ? -1 : 1), () => [].concat, () => class {},
    () => Object.assign(() => {}, { toString: () => 'a'.repeat(2 ** 28) }), () => Math.max, () => Uint8Array, () => RegExp, () => async () => {}, () => function* () {}, () => Promise,
    () => ''.repeat.bind('a'.repeat(2 ** 20)), () => eval('(()=>{' + ';'.repeat(2 ** 18) + '})'), () => Symbol, () => Date, () => isNaN, () => JSON.stringify,
  ],
  Array: [
    () => [], () => [1, 2, 3], () => new Array(2 ** 32 - 1), () => new Array(2 ** 25), () => new Array(2 ** 20), () => new Array(2 ** 20).fill(0.5), () => new Array(2 ** 21).fill('a'),
    () => new Array(2 ** 16).fill('a'.repeat(2 ** 20) + 'b'), () => new Array(2 ** 12).fill('a'.repeat(2 ** 16)), () => nested(30), () => nested(16), () => deep(2 ** 16), () => circle(),
    () => new Array(2 ** 10).fill(new Array(2 ** 20)), () => Array.from({ length: 2 ** 12 }, (_, i) => [`a${i}`, i]), () => ['de', variants(3e4)], () => new Array(2 ** 12).fill('de'),
    () => Object.assign([], { [2 ** 31]: 1, length: 2 ** 32 - 1 }), () => new Array(2 ** 16).fill([]), () => new Array(2 ** 14).fill(new Array(2 ** 14).fill(1)), () => Object.freeze([1, 2]),
    () => Array.from({ length: 2 ** 10 }, (_, i) => 'a'.repeat(2 ** 20).slice(i) + 'b'), () => new Array(2 ** 16).fill({ toString: null, valueOf: () => 1 }),
    () => new Array(2 ** 16).fill(new Uint8Array(2 ** 20)), () => [new Uint8Array(2 ** 26)], () => new Array(2 ** 16).fill(NaN), () => new Array(2 ** 12).fill(2n ** 65536n),
  ],
  Object: [
    () => ({}), () => ({ length: 2 ** 53 - 1 }), () => ({ length: 2 ** 32 - 1 }), () => ({ length: 2 ** 28 }), () => ({ length: 2 ** 25 }), () => ({ length: 2 ** 21 }), () => ({ length: 2 ** 16, 0: 1 }),
    () => ({ length: 2 ** 28, [Symbol.isConcatSpreadable]: true }), () => ({ get length() { return 2 ** 30; } }), () => ({ toString: () => 'a'.repeat(2 ** 28) }), () => ({ valueOf: () => 2 ** 30 }),
    () => ({ [Symbol.iterator]: () => lazy() }), () => ({ size: Infinity, has: () => true, keys: () => lazy() }), () => ({ then: (done) => done(1) }), () => ({ type: 'language' }),
    () => ({ style: 'currency', currency: 'EUR' }), () => ({ maxByteLength: 2 ** 30 }), () => ({ granularity: 'word' }), () => ({ stream: true, fatal: true }), () => ({ timeZone: 'a'.repeat(2 ** 20) }),
    () => ({ maximumFractionDigits: 100, minimumIntegerDigits: 21 }), () => ({ years: 1e9, nanoseconds: 2 ** 53 - 1 }), () => Object.fromEntries(Array.from({ length: 2 ** 12 }, (_, i) => [`a${i}`, i])),
    () => Object.create(null), () => globalThis, () => Object.create(new Uint8Array(2 ** 26)), () => ({ raw: { length: 2 ** 28 } }), () => ({ [Symbol.split]: null, [Symbol.match]: true }),
    () => new Proxy({}, {}), () => new Proxy([], { get: () => 2 ** 30, has: () => true }), () => new Proxy(new Array(2 ** 32 - 1), {}), () => lying(), () => new Proxy(function () {}, {}),
    () => new Proxy({}, { ownKeys: () => new Array(2 ** 16).fill(0).map((_, i) => `a${i}`) }), () => new Proxy(new Uint8Array(2 ** 20), {}), () => new Proxy({}, { ownKeys: () => ({ length: 2 ** 28 }) }),
    () => { let object = {}; for (let i = 0; i < 2 ** 14; i++) object = { object }; return object; }, () => { let object = {}; for (let i = 0; i < 2 ** 12; i++) object = Object.create(object); return object; },
    () => (function () { return arguments; })(...new Array(2 ** 14)),
  ],
  RegExp: [
    () => /a/, () => /a/g, () => /(?:)/g, () => /(a*)*b/, () => /a/y, () => /(a)(b)?(?<c>c)?/dg, () => /./gsu, () => /\p{L}/v, () => /[^]*/, () => new RegExp('a'.repeat(2 ** 16)), () => new RegExp('b' + 'a'.repeat(2 ** 14), 'g'),
    () => new RegExp('(a)'.repeat(2 ** 10), 'g'), () => new RegExp('(?:a|b|)'.repeat(2 ** 8), 'g'), () => /\u0130/gi, () => new RegExp('(?=a)'.repeat(2 ** 10), 'gi'), () => /(?<=a*)b/g,
  ],
  Date: [() => new Date(0), () => new Date(NaN), () => new Date(8.64e15)],
  Map: [() => new Map(), () => new Map(Array.from({ length: 2 ** 16 }, (_, i) => [i, i])), () => new Map([['a'.repeat(2 ** 20), 1]])],
  Set: [() => new Set(), () => new Set(Array.from({ length: 2 ** 16 }, (_, i) => i)), () => new Set(Array.from({ length: 2 ** 8 }, (_, i) => 'a'.repeat(2 ** 18).slice(i) + 'b'))],
  WeakMap: [() => new WeakMap()],
  WeakSet: [() => new WeakSet()],
  WeakRef: [() => new WeakRef({})],
  Promise: [() => Promise.resolve(1), () => new Promise(() => {})],
  Error: [() => new Error('a'.repeat(2 ** 20)), () => new AggregateError(new Array(2 ** 14)), () => Object.assign(new Error(), { name: 'a'.repeat(2 ** 28), message: 'a'.repeat(2 ** 28) })],
  ArrayBuffer: [() => new ArrayBuffer(0), () => new ArrayBuffer(2 ** 26), () => new ArrayBuffer(8, { maxByteLength: 2 ** 26 }), () => { const buffer = new ArrayBuffer(8); buffer.transfer(); return buffer; }],
  DataView: [() => new DataView(new ArrayBuffer(2 ** 26)), () => new DataView(new ArrayBuffer(8))],
  TypedArray: [
    () => new Uint8Array(0), () => new Uint8Array(2 ** 16), () => new Uint8Array(2 ** 20), () => new Uint8Array(2 ** 26), () => new Float64Array(2 ** 23), () => new BigInt64Array(2 ** 22), () => new Float16Array(2 ** 24),
    () => new Uint8Array(new ArrayBuffer(8, { maxByteLength: 2 ** 26 })), () => new Int32Array(2 ** 21).fill(-1), () => new Uint8Array(2 ** 25).fill(0xe2), () => new Float64Array(2 ** 21).map(Math.random),
  ],
  Iterator: [
    () => lazy(), () => [1, 2][Symbol.iterator](), () => new Array(2 ** 32 - 1).values(), () => 'a'.repeat(2 ** 28)[Symbol.iterator](), () => new Map([[1, 2]]).entries(), () => Iterator.from(lazy()), () => lazy().map(String),
    () => new Uint8Array(2 ** 26).values(), () => 'a'.repeat(2 ** 22).matchAll(/a/g), () => new Uint8Array(2 ** 26).values().drop(2 ** 26), () => new Array(2 ** 32 - 1).values().filter(Boolean), () => new Set([1]).values(),
    () => new Array(2 ** 32 - 1).keys().map(Boolean), () => Iterator.concat?.(new Array(2 ** 32 - 1), [1]), () => new Intl.Segmenter().segment('a'.repeat(2 ** 20))[Symbol.iterator](), () => new URLSearchParams('a=b&'.repeat(2 ** 14)).entries(),
  ],
  'Intl.Collator': [() => new Intl.Collator('de'), () => new Intl.Collator('zh', { numeric: true }), () => new Intl.Collator('de', { ignorePunctuation: true })],
  'Intl.NumberFormat': [() => new Intl.NumberFormat('de'), () => new Intl.NumberFormat('hi', { style: 'unit', unit: 'byte', unitDisplay: 'long' }), () => new Intl.NumberFormat('de', { notation: 'compact' }), () => new Intl.NumberFormat('de', { maximumFractionDigits: 100, minimumFractionDigits: 100 })],
  'Intl.DateTimeFormat': [() => new Intl.DateTimeFormat('de'), () => new Intl.DateTimeFormat('ar', { dateStyle: 'full', calendar: 'islamic' }), () => new Intl.DateTimeFormat('zh', { calendar: 'chinese', dateStyle: 'long' })],
  'Intl.DisplayNames': [() => new Intl.DisplayNames('en', { type: 'language' }), () => new Intl.DisplayNames('en', { type: 'currency' }), () => new Intl.DisplayNames('en', { type: 'region' })],
  'Intl.ListFormat': [() => new Intl.ListFormat('de')],
  'Intl.Locale': [() => new Intl.Locale('de'), () => new Intl.Locale('zh-u-co-pinyin')],
  'Intl.PluralRules': [() => new Intl.PluralRules('ar')],
  'Intl.RelativeTimeFormat': [() => new Intl.RelativeTimeFormat('de')],
  'Intl.DurationFormat': [() => new Intl.DurationFormat('de')],
  'Intl.Segmenter': [() => new Intl.Segmenter('th', { granularity: 'word' }), () => new Intl.Segmenter('de', { granularity: 'sentence' }), () => new Intl.Segmenter()],
  '%Segments%': [() => new Intl.Segmenter('th', { granularity: 'word' }).segment('\u0e01\u0e34'.repeat(2 ** 18)), () => new Intl.Segmenter('de', { granularity: 'sentence' }).segment('a'.repeat(2 ** 22)), () => new Intl.Segmenter().segment('\u{1f468}\u200d'.repeat(2 ** 16))],
  'Temporal.PlainDate': [() => new Temporal.PlainDate(2020, 1, 1), () => new Temporal.PlainDate(-271821, 4, 19, 'chinese')],
  'Temporal.PlainDateTime': [() => new Temporal.PlainDateTime(275760, 9, 13, 0, 0), () => new Temporal.PlainDateTime(2020, 1, 1)],
  'Temporal.ZonedDateTime': [() => new Temporal.ZonedDateTime(0n, 'Europe/Berlin'), () => new Temporal.ZonedDateTime(8640000000000000000000n, 'UTC')],
  'Temporal.Duration': [() => new Temporal.Duration(1e9), () => new Temporal.Duration(0, 0, 0, 0, 0, 0, 0, 0, 0, 2 ** 53 - 1), () => Temporal.Duration.from({ days: 1e14, hours: 1 })],
  'Temporal.Instant': [() => new Temporal.Instant(0n)],
  'Temporal.PlainTime': [() => new Temporal.PlainTime(1)],
  'Temporal.PlainYearMonth': [() => new Temporal.PlainYearMonth(2020, 1)],
  'Temporal.PlainMonthDay': [() => new Temporal.PlainMonthDay(2, 29)],
  Headers: [() => new Headers(), () => new Headers(Array.from({ length: 1e3 }, (_, i) => [`a${i}`, 'b']))],
  Request: [() => new Request('https://host/'), () => new Request('https://host/', { method: 'POST', body: 'a'.repeat(2 ** 24) })],
  Response: [() => new Response(''), () => new Response('['.repeat(2 ** 22)), () => new Response(new Uint8Array(2 ** 25)), () => new Response('a=b&'.repeat(2 ** 18), { headers: { 'content-type': 'application/x-www-form-urlencoded' } })],
  URL: [() => new URL('https://host/'), () => new URL('https://host/?' + 'a=b&'.repeat(2 ** 16))],
  URLSearchParams: [() => new URLSearchParams('a=b&'.repeat(2 ** 16)), () => new URLSearchParams()],
  URLPattern: [() => new URLPattern({ pathname: '/:a/*' })],
  HTMLRewriter: [() => new HTMLRewriter(), () => new HTMLRewriter().on('*', { element() {}, text() {} }).onDocument({ end() {} })],
  Blob: [() => new Blob(['a'.repeat(2 ** 24)]), () => new Blob([])],
  FormData: [() => new FormData()],
  TextEncoder: [() => new TextEncoder()],
  TextDecoder: [() => new TextDecoder(), () => new TextDecoder('gb18030'), () => new TextDecoder('iso-2022-jp', { fatal: true })],
  EventTarget: [() => new EventTarget()],
  Event: [() => new Event('a')],
  AbortSignal: [() => new AbortController().signal, () => AbortSignal.any(new Array(2 ** 10).fill(new AbortController().signal))],
  ReadableStream: [() => new ReadableStream(), () => new Blob(['a'.repeat(2 ** 24)]).stream()],
  WritableStream: [() => new WritableStream()],
  TransformStream: [() => new TransformStream(), () => new CompressionStream('gzip')],
  Nothing: [() => undefined, () => null],
};
