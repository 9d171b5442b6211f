// structuredClone (HTML §2.7): StructuredSerializeWithTransfer and StructuredDeserializeWithTransfer in one walk, for
// nothing that runs between them could tell. Written here, and not left to V8, so that a walk over however much can be
// terminated, and what it makes is counted, at every step.
//
//   copy(value) ─► a shell, remembered ─► its contents wait on top of the frames ─► copied one after the other
//
// The frames take the place of a call stack, so that no depth is too much. A getter that runs on the way sees and changes
// what it likes; properties are read in the standard's order.
//
// What is transferred is moved when all the rest has been read. Until then a placeholder, a `Later`, stands for it, and is
// replaced wherever it came to lie.
(function (internal) {
  "use strict";

  const {
    ArrayBuffer, ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeGetDetached, ArrayBufferPrototypeTransfer,
    ArrayPrototype, DataView, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
    DataViewPrototypeGetByteOffset, Date, DatePrototypeGetTime, Map, MapPrototypeClear, MapPrototypeForEach,
    MapPrototypeGet, MapPrototypeHas, MapPrototypeSet, Object, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor,
    ObjectGetPrototypeOf, ObjectHasOwn, ObjectKeys, ObjectPrototype, RegExp, RegExpPrototypeGetSource, Set,
    SetPrototypeAdd, SetPrototypeClear, SetPrototypeForEach, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
    TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { dictionary, isObject, needs, sequence } = internal.webidl;
  const { ops } = internal;

  internal.later("clones", ["structuredClone"], () => {
    // As `Kind` in ops/clone.rs.
    const PLAIN = 0, ARRAY = 1, FUNCTION = 2, PROXY = 3, MAP = 5, SET = 6, DATE = 7, REGEXP = 8, ERROR = 9,
      WRAPPER = 10, ARRAY_BUFFER = 11, TYPED_ARRAY = 12, DATA_VIEW = 13;
    // The last step of an array: what is not an index.
    const NAMED = 14;

    // An array that is longer is a dictionary of what it has.
    const SPARSE = 2 ** 25;

    const { arrayNamed, errorNamed, interfaceOf, primitiveOf, refuse } = internal.cloneKinds();

    // ---- The walk

    // What will be there when all has been read: of something transferred, or a view of that.
    let made; // (later) → what has become of it
    let isLater;
    class Later {
      #make;
      #made = undefined;
      constructor(make) {
        this.#make = make;
      }
      static {
        isLater = (value) => typeof value === "object" && value !== null && #make in value;
        made = (later) => {
          if (later.#make !== null) {
            later.#made = later.#make();
            later.#make = null;
          }
          return later.#made;
        };
      }
    }

    // Something that is being copied.
    class Frame {
      below;
      kind;
      from;
      to;
      // Of a plain object the keys, of a map the keys and values in turn.
      items;
      at = 0;
      length;
      // The clone of the key that a value of a map waits for.
      key = undefined;
      constructor(below, kind, from, to, items, length) {
        this.below = below;
        this.kind = kind;
        this.from = from;
        this.to = to;
        this.items = items;
        this.length = length;
      }
    }

    // The clone of what another standard clones; null of anything else.
    function platform(value) {
      const { cloners } = internal;
      for (let i = 0; i < cloners.length; i++) {
        const clone = cloners[i](value);
        if (clone !== null) return clone;
      }
      return null;
    }

    // In a bound callback what only calls native code could go on after a termination; what loops does not.
    let once = 1;

    class Walk {
      // From an object to its clone.
      memory = new Map();
      // From a prototype to whether it is that of a platform object, and of which.
      verdicts = new Map();
      // The frame of what is being copied just now.
      top = null;
      // Places where a Later lies: {next, kind, to, key, later}.
      places = null;
      hasLaters = false;

      push(kind, from, to, items, length) {
        this.top = new Frame(this.top, kind, from, to, items, length);
      }

      copy(value) {
        if (!isObject(value)) {
          if (typeof value === "symbol") refuse("A symbol");
          return value;
        }
        const known = MapPrototypeGet(this.memory, value);
        if (known !== undefined) return known;
        const clone = this.shell(value);
        MapPrototypeSet(this.memory, value, clone);
        return clone;
      }

      // The clone of an object, without the contents that wait on top of the frames.
      shell(value) {
        const kind = ops.cloneKind(value);
        switch (kind) {
          case PLAIN: return this.plain(value);
          case ARRAY: {
            const { length } = value;
            const to = [];
            if (length > SPARSE) {
              to.length = length;
              const keys = ObjectKeys(value);
              this.push(NAMED, value, to, keys, keys.length);
            } else {
              this.push(ARRAY, value, to, null, length);
            }
            return to;
          }
          case MAP: {
            const to = new Map();
            const items = [];
            MapPrototypeForEach(value, (item, key) => {
              for (let i = 0; i < once; i++) items[items.length] = key;
              items[items.length] = item;
            });
            this.push(MAP, value, to, items, items.length);
            return to;
          }
          case SET: {
            const to = new Set();
            const items = [];
            SetPrototypeForEach(value, (item) => {
              for (let i = 0; i < once; i++) items[items.length] = item;
            });
            this.push(SET, value, to, items, items.length);
            return to;
          }
          case DATE: return new Date(DatePrototypeGetTime(value));
          case REGEXP: return new RegExp(RegExpPrototypeGetSource(value), internal.flagsOf(value));
          case ERROR: return platform(value) ?? this.error(value);
          case WRAPPER: return Object(primitiveOf(value));
          case ARRAY_BUFFER: return this.buffer(value);
          case TYPED_ARRAY: {
            const buffer = this.copy(TypedArrayPrototypeGetBuffer(value));
            const offset = TypedArrayPrototypeGetByteOffset(value);
            const length = TypedArrayPrototypeGetLength(value);
            const kind = TypedArrayPrototypeGetSymbolToStringTag(value);
            const constructor = arrayNamed(kind);
            return this.view(buffer, (buffer) => new constructor(buffer, offset, length));
          }
          case DATA_VIEW: {
            const buffer = this.copy(DataViewPrototypeGetBuffer(value));
            const offset = DataViewPrototypeGetByteOffset(value);
            const length = DataViewPrototypeGetByteLength(value);
            return this.view(buffer, (buffer) => new DataView(buffer, offset, length));
          }
          case FUNCTION: return refuse("A function");
          case PROXY: return refuse("A Proxy");
          default: return refuse(`A ${ops.kindOf(value)}`);
        }
      }

      plain(value) {
        if (value === globalThis) refuse("The global object");
        const prototype = ObjectGetPrototypeOf(value);
        if (prototype !== ObjectPrototype && prototype !== null) {
          let verdict = MapPrototypeGet(this.verdicts, prototype);
          if (verdict === undefined) MapPrototypeSet(this.verdicts, prototype, verdict = interfaceOf(prototype));
          if (verdict !== null) return platform(value) ?? refuse(`An object of the class ${verdict}`);
        }
        const to = {};
        const keys = ObjectKeys(value);
        if (keys.length > 0) this.push(PLAIN, value, to, keys, keys.length);
        return to;
      }

      buffer(value) {
        if (ArrayBufferPrototypeGetDetached(value)) refuse("A detached ArrayBuffer");
        const to = new ArrayBuffer(ArrayBufferPrototypeGetByteLength(value));
        TypedArrayPrototypeSet(new Uint8Array(to), new Uint8Array(value));
        return to;
      }

      view(buffer, make) {
        return isLater(buffer) ? new Later(() => make(made(buffer))) : make(buffer);
      }

      error(value) {
        const { name } = value;
        const known = name === undefined ? "Error" : `${name}`;
        const message = ObjectGetOwnPropertyDescriptor(value, "message");
        const text = message !== undefined && "value" in message ? `${message.value}` : undefined;
        const to = new (errorNamed(known))(text);
        const stack = { __proto__: null, value: internal.stackOf(value), writable: true, enumerable: false, configurable: true };
        ObjectDefineProperty(to, "stack", stack);
        if (ObjectHasOwn(value, "cause")) this.push(ERROR, value, to, ["cause"], 1);
        return to;
      }

      // Copies until nothing waits.
      run() {
        while (this.top !== null) {
          const frame = this.top;
          this.fill(frame);
          // What the last copy has put on top comes first.
          if (this.top === frame && frame.at >= frame.length) this.end(frame);
        }
      }

      fill(frame) {
        const { from, items, kind, length, to } = frame;
        while (frame.at < length && this.top === frame) {
          const at = frame.at++;
          switch (kind) {
            case ARRAY: {
              // Most places have what they seem to have, and nothing below it.
              if (at in ArrayPrototype) {
                if (ObjectHasOwn(from, at)) this.put(kind, to, at, this.copy(from[at]));
                break;
              }
              const item = from[at];
              if (item === undefined && !ObjectHasOwn(from, at)) break;
              const value = this.copy(item);
              if (this.hasLaters && isLater(value)) this.put(kind, to, at, value);
              else to[at] = value;
              break;
            }
            case MAP:
              if (at % 2 === 0) {
                frame.key = this.copy(items[at]);
              } else {
                const value = this.copy(items[at]);
                if (this.hasLaters && (isLater(frame.key) || isLater(value))) this.place(MAP, to);
                MapPrototypeSet(to, frame.key, value);
              }
              break;
            case SET: {
              const value = this.copy(items[at]);
              if (this.hasLaters && isLater(value)) this.place(SET, to);
              SetPrototypeAdd(to, value);
              break;
            }
            default: {
              const key = items[at];
              const item = from[key];
              // A getter may have taken it away.
              if (item !== undefined || ObjectHasOwn(from, key)) this.put(kind, to, key, this.copy(item));
            }
          }
        }
      }

      end(frame) {
        const { from, kind, length, to } = frame;
        this.top = frame.below;
        if (kind !== ARRAY) return;
        if (to.length !== length) to.length = length;
        const names = ops.cloneNames(from);
        if (names !== undefined) this.push(NAMED, from, to, names, names.length);
      }

      // Defines a property. What a prototype has of that name could be a setter.
      put(kind, to, key, value) {
        if (this.hasLaters && isLater(value)) this.places = { __proto__: null, next: this.places, kind, to, key, later: value };
        if (kind !== ERROR && !(key in (kind === PLAIN ? ObjectPrototype : ArrayPrototype))) {
          to[key] = value;
        } else {
          const enumerable = kind !== ERROR;
          ObjectDefineProperty(to, key, { __proto__: null, value, writable: true, enumerable, configurable: true });
        }
      }

      place(kind, to) {
        this.places = { __proto__: null, next: this.places, kind, to, key: undefined, later: null };
      }

      // Puts what has been made where its placeholders lie.
      settle() {
        for (let place = this.places; place !== null; place = place.next) {
          const { key, kind, later, to } = place;
          if (kind === MAP) {
            const items = [];
            MapPrototypeForEach(to, (value, key) => {
              items[items.length] = key;
              items[items.length] = value;
            });
            MapPrototypeClear(to);
            for (let i = 0; i < items.length; i += 2) MapPrototypeSet(to, settled(items[i]), settled(items[i + 1]));
          } else if (kind === SET) {
            const items = [];
            SetPrototypeForEach(to, (value) => {
              items[items.length] = value;
            });
            SetPrototypeClear(to);
            for (let i = 0; i < items.length; i++) SetPrototypeAdd(to, settled(items[i]));
          } else {
            ObjectDefineProperty(to, key, { __proto__: null, value: made(later) });
          }
        }
      }
    }
    const settled = (value) => (isLater(value) ? made(value) : value);

    // ---- Transfer

    // What moves an object, or null.
    function moverOf(value) {
      if (ops.cloneKind(value) === ARRAY_BUFFER) {
        return () => {
          if (ArrayBufferPrototypeGetDetached(value)) refuse("A detached ArrayBuffer");
          return ArrayBufferPrototypeTransfer(value);
        };
      }
      const { movers } = internal;
      for (let i = 0; i < movers.length; i++) {
        const mover = movers[i](value);
        if (mover !== null) return mover;
      }
      return null;
    }

    // The clone of `value`, and what the objects in `transfer` have become.
    function send(value, transfer) {
      const transferred = [];
      if (transfer.length === 0 && !isObject(value)) {
        if (typeof value === "symbol") refuse("A symbol");
        return { __proto__: null, value, transferred };
      }
      const walk = new Walk();
      const laters = [];
      for (let i = 0; i < transfer.length; i++) {
        const mover = moverOf(transfer[i]);
        if (mover === null) throw new (internal.exceptions().DOMException)("An object in the transfer list cannot be transferred", "DataCloneError");
        if (MapPrototypeHas(walk.memory, transfer[i])) {
          throw new (internal.exceptions().DOMException)("An object is twice in the transfer list", "DataCloneError");
        }
        laters[i] = new Later(mover);
        MapPrototypeSet(walk.memory, transfer[i], laters[i]);
        walk.hasLaters = true;
      }
      const clone = walk.copy(value);
      walk.run();
      for (let i = 0; i < laters.length; i++) transferred[i] = made(laters[i]);
      if (walk.hasLaters) walk.settle();
      return { __proto__: null, value: settled(clone), transferred };
    }

    // The sequence in `options`, or that `options` is: of objects.
    const object = (value) => {
      if (!isObject(value)) throw new TypeError("transfer: not an object");
      return value;
    };
    const transferFrom = (options, what) => {
      const { transfer } = dictionary(options, what);
      return transfer === undefined ? [] : sequence(transfer, object, `${what}: transfer`);
    };

    const { structuredClone } = {
      structuredClone(value, options = undefined) {
        needs(arguments.length, 1, "structuredClone");
        return send(value, transferFrom(options, "structuredClone")).value;
      },
    };
    return { structuredClone, object, send, transferFrom };
  });
})
