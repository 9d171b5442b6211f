// The last of the files that bound V8's functions (see bounds.js). It removes the functions that
// only these files share.
//: after bounds-elements.js bounds-json.js bounds-languages.js bounds-numbers.js bounds-objects.js
(function (internal) {
  "use strict";

  internal.bounds = undefined;
})
