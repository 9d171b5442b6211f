// Built-in functions with unbounded running time. V8 checks for a termination request at JavaScript
// calls and loops. Loops in native code run to their end, and some crash the process when they
// cannot allocate enough. This file and the files `bounds-*.js` replace such functions with
// wrappers that check the size of the input first. Below a bound, which is at most tens of
// milliseconds of work, they call the native function directly. Above the bound, depending on the
// function,
//
// - the input is wrapped in a proxy whose traps are JavaScript functions, so that every step of the
//   loop is a call, where a termination takes effect;
// - the work is done in pieces, between which a termination takes effect;
// - the call is refused with a RangeError.
//
// Syntax (`for (… in …)`, `{ ...x }`, `+text`) cannot be replaced.
//: after bootstrap.js
(function (internal) {
  "use strict";

  const {
    FunctionPrototypeBind, ObjectDefineProperty, Proxy, ProxyRevocable, RangeError, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, TypeError, WeakMap, WeakMapPrototypeGet, WeakMapPrototypeHas, WeakMapPrototypeSet,
  } = internal.primordials;

  // Replaces functions of `object` with the functions of `made`, which have the same names and
  // lengths, and keeps the property attributes. (Setting a length afterwards would cost each
  // function, in each isolate, a property dictionary.)
  function replace(object, made) {
    const names = ReflectOwnKeys(made);
    for (let i = 0; i < names.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(object, names[i]);
      const value = made[names[i]];
      if (value.length !== descriptor.value.length || value.name !== descriptor.value.name) {
        throw new TypeError(`The replacement of ${descriptor.value.name} has a different length or name`);
      }
      descriptor.value = value;
      ObjectDefineProperty(object, names[i], descriptor);
    }
  }

  function refuse(what, length) {
    throw new RangeError(`${what} of length ${length} is too large to process at once`);
  }

  // ---- Proxies. Proxies must be distinguished from arrays: a proxy can report a length of 1 and
  // then a length of 2⁵³ − 1.

  // Maps each proxy to its target. Null until the first proxy is created, so that a Worker without
  // proxies bears no cost.
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
  // The function is bound, because `Proxy` has no property `prototype`.
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

  // Yields the same items, each in a JavaScript step.
  function* each(items) {
    for (const item of items) yield item;
  }

  internal.bounds = { __proto__: null, each, isProxy, refuse, replace, targetOf };
})
