// The last of the files that put bounds to V8's functions (see bounds.js): what they share is not for the others.
(function (internal) {
  "use strict";

  internal.bounds = undefined;
})
