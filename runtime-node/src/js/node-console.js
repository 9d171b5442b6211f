// node:console: the global one.
(function (internal) {
  "use strict";

  internal.node.console = internal.builtin(["console"], () => internal.console);
})
