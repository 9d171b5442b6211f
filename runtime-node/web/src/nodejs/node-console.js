// node:console: the global console.
//: module
(function (internal) {
  "use strict";

  internal.define("console", () => internal.console);
})
