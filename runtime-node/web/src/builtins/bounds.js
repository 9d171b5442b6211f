// Built-in functions that take as long as they are told to. V8 looks for a request to terminate where JavaScript is
// called and where it loops; what loops in native code ends when it ends, and some of it ends the process when it cannot
// make room for so much. So the functions that do are replaced, here and in the files `bounds-*.js`, by ones of ours that
// look first how much they are given. Within a bound that is some milliseconds' work it goes straight on. Above, as the
// function allows:
//
// - what it goes through is handed on in disguise: as a proxy each of whose traps is a function of ours, so that every step
//   of the loop is a call, where a termination strikes;
// - the work is done in pieces, between which a termination strikes;
// - it is refused with a RangeError.
//
// What the syntax does by itself (`for (… in …)`, `{ ...x }`, `+text`) cannot be replaced.
(function (internal) {
  "use strict";

  const {
    FunctionPrototypeBind, ObjectDefineProperty, Proxy, ProxyRevocable, RangeError, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, TypeError, WeakMap, WeakMapPrototypeGet, WeakMapPrototypeHas, WeakMapPrototypeSet,
  } = internal.primordials;

  // Puts `made`, of the same names and lengths and described as what it replaces, in place of functions of `object`.
  // (A length that is set afterwards would cost each function, in each isolate, a dictionary of properties.)
  function replace(object, made) {
    const names = ReflectOwnKeys(made);
    for (let i = 0; i < names.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(object, names[i]);
      const value = made[names[i]];
      if (value.length !== descriptor.value.length || value.name !== descriptor.value.name) {
        throw new TypeError(`${descriptor.value.name} has another length or name`);
      }
      descriptor.value = value;
      ObjectDefineProperty(object, names[i], descriptor);
    }
  }

  function refuse(what, length) {
    throw new RangeError(`${what} of ${length} is too much to go through at once`);
  }

  // ---- Proxies, which must be known from arrays: one can say that it has a length of 1, and then of 2⁵³ − 1.

  // The targets of all there are; null until the first is made, so that a Worker that makes none pays nothing.
  let targets = null;
  const isProxy = (value) => targets !== null && WeakMapPrototypeHas(targets, value);
  const targetOf = (proxy) => WeakMapPrototypeGet(targets, proxy);
  function mark(proxy, target) {
    targets ??= new WeakMap();
    WeakMapPrototypeSet(targets, proxy, target);
    return proxy;
  }

  function construct(target, handler) {
    if (new.target === undefined) throw new TypeError("Constructor Proxy requires 'new'");
    return mark(new Proxy(target, handler), target);
  }
  // Bound, because `Proxy` has no property `prototype`.
  const proxies = FunctionPrototypeBind(construct, undefined);
  ObjectDefineProperty(proxies, "name", { __proto__: null, value: "Proxy", configurable: true });
  const { revocable } = {
    revocable(target, handler) {
      const made = ProxyRevocable(target, handler);
      mark(made.proxy, target);
      return made;
    },
  };
  ObjectDefineProperty(proxies, "revocable", { __proto__: null, value: revocable, writable: true, configurable: true });
  internal.globals({ Proxy: proxies });

  // The same items, each of which takes a step of ours.
  function* each(items) {
    for (const item of items) yield item;
  }

  internal.bounds = { __proto__: null, each, isProxy, refuse, replace, targetOf };
})
