// The clock that a Worker sees (ECMAScript §21.4, ECMA-402 §11, Temporal §2): it stands still during a turn and counts
// whole milliseconds. V8's own go on, and Temporal's counts nanoseconds: fine enough to tell what is in a processor's
// cache, and so what a neighbour does. Whatever reads the time of day is replaced here by what asks `ops.now`.
(function (internal) {
  "use strict";

  const {
    Date, DatePrototypeToString, ObjectDefineProperties, ObjectGetOwnPropertyDescriptors, ReflectApply,
    ReflectConstruct, ReflectGetOwnPropertyDescriptor, ReflectDefineProperty, WeakMap, WeakMapPrototypeGet, WeakMapPrototypeSet,
  } = internal.primordials;
  const { Intl } = globalThis;

  const now = () => internal.ops.now();

  function method(object, name, value) {
    ReflectDefineProperty(value, "name", { __proto__: null, value: name, configurable: true });
    ReflectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  }

  // ---- Date

  function TenonDate(...args) {
    if (new.target === undefined) return DatePrototypeToString(new Date(now()));
    if (args.length === 0) args = [now()];
    return ReflectConstruct(Date, args, new.target === TenonDate ? Date : new.target);
  }
  const descriptors = ObjectGetOwnPropertyDescriptors(Date);
  descriptors.now = { __proto__: null, value: { now }.now, writable: true, enumerable: false, configurable: true };
  ObjectDefineProperties(TenonDate, descriptors);
  ObjectDefineProperties(Date.prototype, {
    __proto__: null,
    constructor: { __proto__: null, value: TenonDate, writable: true, enumerable: false, configurable: true },
  });
  internal.globals({ Date: TenonDate });

  // ---- Intl.DateTimeFormat, which formats the present where it is given nothing

  const formats = Intl.DateTimeFormat.prototype;
  const nativeFormat = ReflectGetOwnPropertyDescriptor(formats, "format").get;
  const { formatToParts } = formats;
  // The function that the getter `format` has given out for each; it is the same one each time. Not in the snapshot.
  let bound;
  const members = {
    get format() {
      const native = ReflectApply(nativeFormat, this, []);
      bound ??= new WeakMap();
      let format = WeakMapPrototypeGet(bound, native);
      if (format === undefined) {
        format = (date) => ReflectApply(native, undefined, [date === undefined ? now() : date]);
        ReflectDefineProperty(format, "name", { __proto__: null, value: "", configurable: true });
        WeakMapPrototypeSet(bound, native, format);
      }
      return format;
    },
    formatToParts(date) {
      return ReflectApply(formatToParts, this, [date === undefined ? now() : date]);
    },
  };
  const { get } = ReflectGetOwnPropertyDescriptor(members, "format");
  ReflectDefineProperty(formats, "format", { __proto__: null, get, set: undefined, enumerable: false, configurable: true });
  method(formats, "formatToParts", members.formatToParts);

  // ---- Temporal.Now, which V8 makes for each new context; so does native code call this for each

  internal.tameTemporal = () => {
    const { Instant, Now, ZonedDateTime } = globalThis.Temporal;
    const { fromEpochMilliseconds, prototype: { toZonedDateTimeISO } } = Instant;
    const { toPlainDate, toPlainDateTime, toPlainTime } = ZonedDateTime.prototype;
    const { timeZoneId } = Now;
    const instant = () => ReflectApply(fromEpochMilliseconds, Instant, [now()]);
    const zoned = (zone) => ReflectApply(toZonedDateTimeISO, instant(), [zone === undefined ? timeZoneId() : zone]);
    method(Now, "instant", () => instant());
    method(Now, "zonedDateTimeISO", (zone = undefined) => zoned(zone));
    method(Now, "plainDateISO", (zone = undefined) => ReflectApply(toPlainDate, zoned(zone), []));
    method(Now, "plainDateTimeISO", (zone = undefined) => ReflectApply(toPlainDateTime, zoned(zone), []));
    method(Now, "plainTimeISO", (zone = undefined) => ReflectApply(toPlainTime, zoned(zone), []));
  };
})
