// structuredClone (HTML §2.7): StructuredSerializeWithTransfer and
// StructuredDeserializeWithTransfer in one walk, which is unobservable because no code runs between
// them. JavaScript implements the walk, and not V8, so that a walk of any size can be terminated
// and its allocations are counted at every step.
//
//   copy(value) ─► a shell, remembered ─► its contents wait on top of the frames ─► copied in order
//
// The frames replace a call stack, so that depth is not limited. Getters that run during the walk
// may change the input; properties are read in the standard's order.
//
// Transferred objects are moved after everything else has been read. Until then, a placeholder, a
// `Later`, stands in for each of them. In the end, the placeholder is replaced wherever it was
// stored.
//: late, after clone-kinds.js
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
    const {
      ARRAY, ARRAY_BUFFER, DATA_VIEW, DATE, ERROR, FUNCTION, MAP, PLAIN, PROXY, REGEXP, SET, TYPED_ARRAY, WRAPPER,
    } = internal.objectKinds;
    // The last step of an array: its properties that are not indices. For a sparse array, this is
    // the only step, and it includes the indices.
    const NAMED = 14;

    // V8 stores an array of a greater length as a dictionary of its elements.
    const SPARSE = 2 ** 25;

    const { arrayNamed, errorNamed, interfaceOf, primitiveOf, refuse } = internal.cloneKinds();

    // ---- The walk

    // A placeholder for a transferred object, or for a view of one, until everything has been read.
    let made; // (later) → the final object
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

    // An object that is being copied.
    class Frame {
      below;
      kind;
      from;
      to;
      // The keys of an object's properties, the items of a set, or the alternating keys and values
      // of a map; null for the elements of an array.
      items;
      at = 0;
      length;
      // The clone of a map's key whose value has not been copied yet.
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

    // Returns the clone of an object whose cloning another standard defines, otherwise null.
    function platform(value) {
      const { cloners } = internal;
      for (let i = 0; i < cloners.length; i++) {
        const clone = cloners[i](value);
        if (clone !== null) return clone;
      }
      return null;
    }

    // Optimized callbacks that only call native code sometimes continue after a termination. A loop
    // in the callback makes this rarer (see bounds-arrays.js).
    let once = 1;

    class Walk {
      // Maps an object to its clone.
      memory = new Map();
      // Maps a prototype to the name of its platform interface, or null.
      verdicts = new Map();
      // The frame of the object that is being copied.
      top = null;
      // Places where a Later is stored: {next, kind, to, key, later}.
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

      // Returns the clone of an object without its contents, and pushes a frame for them, if any.
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

      // Copies until no frame is left.
      run() {
        while (this.top !== null) {
          const frame = this.top;
          this.fill(frame);
          // Frames that the last copy has pushed come first.
          if (this.top === frame && frame.at >= frame.length) this.end(frame);
        }
      }

      fill(frame) {
        const { from, items, kind, length, to } = frame;
        while (frame.at < length && this.top === frame) {
          const at = frame.at++;
          switch (kind) {
            case ARRAY: {
              // If `Array.prototype` has the index, the element may be inherited, and is copied
              // only if it is an own one. Otherwise a value other than undefined is assumed to be
              // an own element.
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
              // A getter may have deleted the property.
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

      // Sets a property. Defines the property instead if a prototype has a property of that name,
      // which could be a setter, or if it belongs to an error, where it is not enumerable.
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

      // Replaces the placeholders with the final objects.
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

    // Returns a function that transfers an object, or null.
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

    // Returns the clone of `value` and the results of the transfers.
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
          throw new (internal.exceptions().DOMException)("An object appears twice in the transfer list", "DataCloneError");
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

    // Validates an object of the transfer list.
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
