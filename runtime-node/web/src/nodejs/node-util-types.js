// node:util/types: predicates that recognize kinds of objects regardless of their prototypes.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, TypedArrayPrototypeGetSymbolToStringTag,
  } = internal.primordials;

  internal.define("utilTypes", () => {
    const types = {};
    const define = (name, is) => {
      types[name] = { [name]: (value) => is(value) }[name];
    };
    for (const kind of [
      "AnyArrayBuffer", "ArgumentsObject", "ArrayBuffer", "AsyncFunction", "BigIntObject", "BooleanObject", "DataView",
      "Date", "External", "GeneratorFunction", "GeneratorObject", "Map", "MapIterator", "ModuleNamespaceObject",
      "NativeError", "NumberObject", "Promise", "Proxy", "RegExp", "Set", "SetIterator", "SharedArrayBuffer",
      "StringObject", "SymbolObject", "WeakMap", "WeakSet",
    ]) {
      define(`is${kind}`, (value) => internal.ops.isKind(value, kind));
    }
    for (const kind of [
      "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array", "Int8Array", "Int16Array", "Int32Array",
      "Uint8Array", "Uint8ClampedArray", "Uint16Array", "Uint32Array",
    ]) {
      define(`is${kind}`, (value) => TypedArrayPrototypeGetSymbolToStringTag(value) === kind);
    }
    define("isTypedArray", (value) => TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined);
    define("isArrayBufferView", ArrayBufferIsView);
    define("isKeyObject", (value) => internal.use("cryptoKeyObjects").isKeyObject(value));
    define("isCryptoKey", (value) => internal.cryptoKeys().isCryptoKey(value));
    define("isBoxedPrimitive", (value) =>
      types.isBigIntObject(value) || types.isBooleanObject(value) || types.isNumberObject(value) ||
      types.isStringObject(value) || types.isSymbolObject(value));
    return types;
  });
})
