// node:console: the global one.
(function (internal) {
  "use strict";

  internal.define("console", () => internal.console);
})
