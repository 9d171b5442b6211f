// What native code needs of JavaScript for a Worker's modules.
//
//   hooks.json(text)     the value of a JSON module
//   hooks.stacks()       has the stacks of errors name the lines that the Worker's author wrote; called before anything of
//                        the Worker runs, if one of its modules has a source map
//
// and calls back:
//
//   ops.sourceFrame(s)   one frame of a stack as V8 writes it, with its place by the source map of that module
(function (internal) {
  "use strict";

  const { Error, ErrorPrototypeToString, JSONParse, ObjectDefineProperty, ObjectGetPrototypeOf, uncurryThis } =
    internal.primordials;
  const { hooks, ops } = internal;

  // A module is short enough for V8 to parse in one go (see bounds-json.js).
  hooks.json = (text) => JSONParse(text);

  // V8 asks `Error.prepareStackTrace`, where there is one, for a stack when it is first wanted. A Worker may replace it, as
  // it may where there is none, and then gets the frames as they are. Workers without source maps never have one, and V8
  // writes their stacks by itself.
  hooks.stacks = () => {
    const define = (value) =>
      ObjectDefineProperty(Error, "prepareStackTrace", {
        __proto__: null, value, writable: true, enumerable: false, configurable: true,
      });
    define((error, frames) => frames);
    const frameToString = uncurryThis(ObjectGetPrototypeOf(new Error().stack[0]).toString);

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
