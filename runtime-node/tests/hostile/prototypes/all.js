// Replaces every function and getter that can be reached from the global object.
// expect: answer well
// limits: startup_ms=5000
// The response must still be sent: the built-in JavaScript calls none of these functions.
const no = () => {
  throw new Error('tampered');
};
const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const found = [];
const seen = new Set();
const { has, add } = Set.prototype;
function walk(object) {
  if ((typeof object !== 'object' && typeof object !== 'function') || object === null) return;
  if (seen.has(object)) return;
  seen.add(object);
  for (const key of ownKeys(object)) {
    const descriptor = getOwnPropertyDescriptor(object, key);
    found.push([object, key, descriptor]);
    walk(descriptor.value);
    walk(descriptor.get);
    walk(descriptor.set);
  }
  walk(getPrototypeOf(object));
}
walk(globalThis);
const well = new Response('well', { headers: { a: 'b' } });
for (let i = 0; i < found.length; i++) {
  const object = found[i][0], key = found[i][1], descriptor = found[i][2];
  if (key === 'prototype' || key === 'constructor') continue;
  const tampered = { __proto__: null, configurable: true };
  if ('value' in descriptor) {
    if (typeof descriptor.value !== 'function') continue;
    tampered.value = no;
  } else {
    tampered.get = no;
    tampered.set = no;
  }
  if (descriptor.configurable || descriptor.writable) {
    try {
      defineProperty(object, key, tampered);
    } catch {}
  }
}
export default { fetch: () => well };
