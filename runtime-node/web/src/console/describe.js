// What `console` shows of the platform's own objects, whose state is private.
(function (internal) {
  "use strict";

  const { ReflectApply, ReflectGetOwnPropertyDescriptor } = internal.primordials;

  // No array: what is made late must not meet a setter of a Worker's.
  internal.describers = { __proto__: null, length: 0 };
  internal.describe = (title, is, constructor, names) => {
    // As they were made, whatever becomes of the prototype.
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
  // The same, by a function that gives a flat list [name, value, …].
  internal.describeBy = (title, is, entries) => {
    const { describers } = internal;
    // First of all: what is made later may be a kind of what there is.
    for (let i = describers.length++; i > 0; i--) describers[i] = describers[i - 1];
    describers[0] = (value) => (is(value) ? { title, entries: entries(value) } : null);
  };
})
