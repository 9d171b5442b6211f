// What few Workers use, made when the first of it is wanted: most of a start's time, and of an isolate's memory, goes by
// the number of functions, and of what these close over, in the snapshot.
//
// Of what a file declares by `internal.later`, a start carries only how it is asked for. If `order.txt` calls the file late it
// carries nothing else of the file either: `build.rs` calls the function for what it declares, and throws that away;
// in an isolate the file is compiled, and its function called again, when the first of what it declares is wanted. That may be
// after a Worker's code has run. So a late file does nothing before it is asked but take what it needs, from `internal` alone,
// and declare; and what it takes of the primordials is kept for it (`build.rs` reads there what that is).
(function (internal) {
  "use strict";

  const { files, lazies, ops } = internal;

  // Things by name, each made when it is first used. What has made one is found by `load(name)`, which runs a file that defines
  // it, and perhaps others. A file that was interrupted is run again, and nothing is made twice.
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

  // files    by key, the late file that declares it
  // lazies   by name of the global object, the key of what has it. `build.rs` makes properties of the global object of the
  //          names, which native code asks for when they are first read
  // Both are complete when the snapshot is made: `build.rs` has looked.
  const { define, use } = internal.registry((key) => ops.lateScript(files[key])(internal));
  const declare = (key) => {
    let made;
    internal[key] = () => (made ??= use(key));
  };
  for (const key in files) declare(key);

  internal.later = (key, names, make) => {
    if (internal.late !== undefined) files[key] = internal.late;
    define(key, make);
    if (internal[key] !== undefined) return;
    declare(key);
    for (let i = 0; i < names.length; i++) lazies[names[i]] = key;
  };

  internal.hooks.lazy = (name) => internal[lazies[name]]()[name];
})
