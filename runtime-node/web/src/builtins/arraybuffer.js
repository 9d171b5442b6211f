// ArrayBuffer without resizable buffers (ECMAScript §25.1): V8 takes their memory from the operating system and not
// from the isolate's allocator, which is where a Worker's memory is counted. What is left is what engines had before
// there were any, so that code that asks whether they are there finds that they are not.
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
