// node:console: the global console.
(function (internal) {
  "use strict";

  internal.define("console", () => internal.console);
})
