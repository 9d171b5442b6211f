// Lazy creation of rarely used objects. Most of an isolate's start-up time and memory depends on
// the number of functions in the snapshot, and on the objects that they close over.
//
// A file declares names with `internal.later`. If the file marks itself as late (`//:`), the
// snapshot holds only these names and the way to request them, and nothing else of the file:
// `build.rs` calls the function to collect its declarations and discards the result. An isolate
// compiles the file and calls its function on the first use of a declared name, possibly after a
// Worker's code has run. The function of a late file therefore only reads values from `internal`
// and declares names. `build.rs` reads from the file which primordials to keep for it.
//: after bootstrap.js
(function (internal) {
  "use strict";

  const { files, lazies, ops } = internal;

  // Creates a registry of objects by name, each of which is made on first use. `load(name)` runs
  // the file that defines the maker of a name, and perhaps other makers. A file that was
  // interrupted runs again, but no object is made twice.
  internal.registry = (load) => {
    const makers = { __proto__: null };
    const made = { __proto__: null };
    return {
      __proto__: null,
      define(name, make) {
        makers[name] = make;
      },
      use(name) {
        if (made[name] === undefined) {
          if (makers[name] === undefined) load(name);
          made[name] = makers[name]();
        }
        return made[name];
      },
    };
  };

  // files    maps a key to the late file that declares it
  // lazies   maps the name of a global to the key of the object that has it. `build.rs` defines a
  //          property of the global object for each name; the first read calls `hooks.lazy`
  //
  // Both are complete when the snapshot is made, because `build.rs` collects them first.
  const { define, use } = internal.registry((key) => ops.lateScript(files[key])(internal));
  const declare = (key) => {
    let made;
    internal[key] = () => (made ??= use(key));
  };
  for (const key in files) declare(key);

  // Declares that `make` creates the object `key`, whose members include the globals `names`.
  // `internal.late` is the name of the late file whose declarations are being collected; it is
  // undefined for other files, and in isolates.
  internal.later = (key, names, make) => {
    if (internal.late !== undefined) files[key] = internal.late;
    define(key, make);
    if (internal[key] !== undefined) return;
    declare(key);
    for (let i = 0; i < names.length; i++) lazies[names[i]] = key;
  };

  internal.hooks.lazy = (name) => internal[lazies[name]]()[name];
})
