// Performs the calls that the test requests. A call depends only on the seed and its number.
//
//   /plan?seed=1&call=2   describes the call, as code
//   /call?seed=1&call=2   performs the same call
//   /count                returns the number of functions

import { VALUES } from './values.js';

// These functions are captured before any call that may change them.
const { apply, construct, ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
const { imul } = Math;
const Answer = Response;
const Address = URL;

// ---- All reachable functions, by their paths

const INSTANCES = {
  '%ArrayIterator%': [].values(), '%StringIterator%': ''[Symbol.iterator](), '%MapIterator%': new Map().entries(), '%SetIterator%': new Set().values(),
  '%RegExpStringIterator%': ''.matchAll(/a/g), '%Generator%': (function* () {})(), '%AsyncGenerator%': (async function* () {})(), '%AsyncFunction%': async () => {},
  '%IteratorHelper%': [].values().map(String), '%WrapForValidIterator%': Iterator.from({ next() {} }), '%Segments%': new Intl.Segmenter().segment('a'),
  '%SegmentIterator%': new Intl.Segmenter().segment('a')[Symbol.iterator](), '%Compare%': new Intl.Collator().compare, '%NumberFormat%': new Intl.NumberFormat().format,
  '%DateTimeFormat%': new Intl.DateTimeFormat().format, '%Reader%': new ReadableStream().getReader(), '%Writer%': new WritableStream().getWriter(), '%Arguments%': (function () { return arguments; })(),
};

function walk() {
  const functions = [];
  const seen = new Set();
  const queue = [['globalThis', globalThis, null], ...Object.keys(INSTANCES).map((name) => [name, INSTANCES[name], null])];
  for (let i = 0; i < queue.length; i++) {
    const [path, value, holder] = queue[i];
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    seen.add(value);
    if (typeof value === 'function') functions.push({ path, value, holder });
    for (const key of ownKeys(value)) {
      const { get, set, value: held } = getOwnPropertyDescriptor(value, key) ?? {};
      const name = typeof key === 'symbol' ? `${path}[${key.description}]` : path === 'globalThis' ? key : `${path}.${key}`;
      queue.push([`get ${name}`, get, value], [`set ${name}`, set, value], [name, held, value]);
    }
    queue.push([`${path}.__proto__`, getPrototypeOf(value), null]);
  }
  return functions;
}
const FUNCTIONS = walk();

// The language's own functions, which may iterate over their input, are called more often than
// functions that only return a value.
const CORE = /^(Array|String|RegExp|Intl|JSON|Object|Reflect|Set|Map|Iterator|Date|BigInt|Promise|Uint8Array|parse|%)/;
const weightOf = ({ path, value }) => (/^[gs]et /.test(path) ? 1 : value.length === 0 && !CORE.test(path) ? 2 : CORE.test(path) ? 12 : 4);
const DRAWN = FUNCTIONS.flatMap((each) => new Array(weightOf(each)).fill(each));
const CLASSES = Object.keys(VALUES);
const ALL = CLASSES.flatMap((name) => VALUES[name]);

// ---- Plans

// Returns a generator of numbers from 0 to 1 that depend only on a seed (Mulberry32).
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const LIKELY = ['String', 'Number', 'Array', 'Object', 'Function', 'TypedArray'];

function plan(seed, call) {
  const next = random(imul(seed, 0x9e3779b1) ^ imul(call, 0x85ebca6b));
  for (let i = 0; i < 4; i++) next();
  const pick = (list) => list[Math.floor(next() * list.length)];
  const { path, value } = pick(DRAWN);
  const argument = () => (next() < 0.6 ? pick(VALUES[pick(LIKELY)]) : pick(ALL));
  const kind = classOf(path);
  const receiver = kind !== undefined && next() < 0.85 ? pick(VALUES[kind]) : argument();
  const last = path.slice(path.lastIndexOf('.') + 1);
  const isNew = /^[A-Z]/.test(last) && next() < 0.6;
  const args = Array.from({ length: Math.min(value.length, 4) + Math.floor(next() * 2.5) }, argument);
  const listed = args.map(sourceOf).join(', ');
  const text = isNew ? `new (${path})(${listed})` : `(${path}).call(${[sourceOf(receiver), ...args.map(sourceOf)].join(', ')})`;
  return { value, receiver, isNew, args, text };
}

// Returns the key of VALUES for receivers of the function at a path, or `undefined`.
function classOf(path) {
  const bare = path.replace(/^[gs]et /, '');
  if (/(^|\.)(Big)?(Uint|Int|Float)\d+(Clamped)?Array\b/.test(bare)) return 'TypedArray';
  if (/Iterator|Generator/.test(bare)) return 'Iterator';
  return CLASSES.findLast((name) => bare === name || bare.startsWith(`${name}.`) || bare.startsWith(`${name}[`));
}
// Returns the code that creates a value.
const sourceOf = (make) => String(make).replace(/^\(\) => /, '').replace(/\s+/g, ' ');

// ---- Calls

function perform({ value, receiver, isNew, args }) {
  const values = args.map((make) => make());
  const result = isNew ? construct(value, values) : apply(value, receiver(), values);
  return use(result);
}
// Uses a result, because a function may defer its work until its result is used.
function use(result) {
  if (typeof result === 'string') return result.charCodeAt(result.length >> 1);
  if (typeof result === 'function') return result('a'.repeat(2 ** 20), 'a'.repeat(2 ** 20) + 'b');
  if (typeof result !== 'object' || result === null) return result;
  if (typeof result.catch === 'function') result.catch(() => {});
  if (typeof result.next !== 'function') return result;
  for (let i = 0; i < 4; i++) result.next();
}

export default {
  fetch(request) {
    const { pathname, searchParams } = new Address(request.url);
    const planned = plan(+searchParams.get('seed'), +searchParams.get('call'));
    if (pathname === '/plan') return new Answer(planned.text);
    if (pathname === '/count') return new Answer(`${FUNCTIONS.length}`);
    try {
      perform(planned);
    } catch {
      return new Answer('threw');
    }
    return new Answer('returned');
  },
};
