// ArrayBuffer without resizable buffers (ECMAScript §25.1). V8 takes the memory of resizable
// buffers from the operating system, not from the isolate's allocator, which counts a Worker's
// memory. A Worker sees an engine without resizable buffers, so feature detection works.
//: after bootstrap.js
(function (internal) {
  "use strict";

  const { ArrayBuffer: Native, ObjectDefineProperty, ReflectConstruct, ReflectDeleteProperty,
    ReflectGetOwnPropertyDescriptor, TypeError } = internal.primordials;

  function ArrayBuffer(length) {
    if (new.target === undefined) throw new TypeError("Constructor ArrayBuffer requires 'new'");
    return ReflectConstruct(Native, [length], new.target);
  }
  const { prototype } = Native;
  for (const key of ["isView", Symbol.species]) {
    ObjectDefineProperty(ArrayBuffer, key, ReflectGetOwnPropertyDescriptor(Native, key));
  }
  ObjectDefineProperty(ArrayBuffer, "prototype", { __proto__: null, value: prototype, writable: false });
  ObjectDefineProperty(prototype, "constructor", { __proto__: null, value: ArrayBuffer });
  for (const key of ["maxByteLength", "resizable", "resize"]) ReflectDeleteProperty(prototype, key);

  internal.globals({ __proto__: null, ArrayBuffer });
})
