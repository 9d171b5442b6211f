// What few Workers use, made when the first of it is wanted: most of a start's time, and of an isolate's memory, goes by
// the number of functions in the snapshot.
(function (internal) {
  "use strict";

  // By name, what gives the object that has it. `build.rs` makes properties of the global object of them, which native
  // code asks for when they are first read.
  const lazies = { __proto__: null };
  internal.lazies = lazies;
  internal.hooks.lazy = (name) => lazies[name]()[name];

  internal.later = (names, make) => {
    let made = null;
    const all = () => (made ??= make());
    for (const name of names) lazies[name] = all;
    return all;
  };
})
