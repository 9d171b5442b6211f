// Descriptions of the platform's own objects, whose state is private, for `console`.
//: after webidl.js
(function (internal) {
  "use strict";

  const { ReflectApply, ReflectGetOwnPropertyDescriptor } = internal.primordials;

  // This is not an array, because entries are added after a Worker may have defined setters on
  // `Array.prototype`.
  internal.describers = { __proto__: null, length: 0 };
  internal.describe = (title, is, constructor, names) => {
    // The original getters, even if the prototype changes later.
    const getters = { __proto__: null };
    for (let i = 0; i < names.length; i++) {
      getters[i] = ReflectGetOwnPropertyDescriptor(constructor.prototype, names[i]).get;
    }
    internal.describeBy(title, is, (value) => {
      const flat = [];
      for (let i = 0; i < names.length; i++) {
        flat[flat.length] = names[i];
        flat[flat.length] = ReflectApply(getters[i], value, []);
      }
      return flat;
    });
  };
  // Makes `console` show an object that passes `is` with the attributes that `entries(object)`
  // returns: a flat list [name, value, …].
  internal.describeBy = (title, is, entries) => {
    const { describers } = internal;
    // The description is inserted at the front, because a later class may extend an earlier one.
    for (let i = describers.length++; i > 0; i--) describers[i] = describers[i - 1];
    describers[0] = (value) => (is(value) ? { title, entries: entries(value) } : null);
  };
})
