// The last of the files that bound V8's functions (see bounds.js): removes what only they share.
(function (internal) {
  "use strict";

  internal.bounds = undefined;
})
