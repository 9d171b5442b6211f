// Functions that native code calls for a Worker's modules.
//
//   hooks.json(text)     returns the value of a JSON module
//   hooks.stacks()       maps the stacks of errors to the original source. Called before a Worker's
//                        code runs, if one of its modules has a source map
//
// This file calls
//
//   ops.sourceFrame(s)   maps one stack frame, as V8 formats it, with its module's source map
//: after webidl.js
(function (internal) {
  "use strict";

  const { Error, ErrorPrototypeToString, JSONParse, ObjectDefineProperty, ObjectGetPrototypeOf, uncurryThis } =
    internal.primordials;
  const { hooks, ops } = internal;

  // A module is short enough for V8 to parse without interruption (see bounds-json.js).
  hooks.json = (text) => JSONParse(text);

  // V8 calls `Error.prepareStackTrace`, if defined, when a stack is first read. A Worker may
  // replace the function, and then gets the unmapped frames. The function is not defined for
  // Workers without source maps, because V8 itself formats their stacks.
  hooks.stacks = () => {
    const define = (value) =>
      ObjectDefineProperty(Error, "prepareStackTrace", {
        __proto__: null, value, writable: true, enumerable: false, configurable: true,
      });
    define((error, frames) => frames);
    const frameToString = uncurryThis(ObjectGetPrototypeOf(/** @type {any} */ (new Error().stack)[0]).toString);

    function prepareStackTrace(error, frames) {
      let stack;
      try {
        stack = ErrorPrototypeToString(error);
      } catch {
        stack = "<error>";
      }
      for (let i = 0; i < frames.length; i++) stack += `\n    at ${ops.sourceFrame(frameToString(frames[i]))}`;
      return stack;
    }
    define(prepareStackTrace);
  };
})
