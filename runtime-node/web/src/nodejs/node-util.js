// node:util: inspection, formatting, and conversions between callbacks and promises.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, ArrayPrototypeIncludes, ArrayPrototypePush, Error, FunctionPrototypeToString, JSONStringify, Number,
    ObjectDefineProperty, ObjectGetPrototypeOf, ObjectIs, ObjectSetPrototypeOf, Promise, PromisePrototypeThen,
    ReflectApply, ReflectConstruct, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, RegExpPrototypeSymbolReplace,
    StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeSplit, StringPrototypeToUpperCase,
    StringPrototypeToWellFormed, SymbolFor, TypeError, parseFloat, parseInt,
  } = internal.primordials;
  const { isObject } = internal.webidl;
  const { queueMicrotask, setTimeout } = internal.platform;

  // Matches ANSI escape sequences.
  const CONTROL = /[\u001B\u009B][[\]()#;?]*(?:(?:(?:[a-zA-Z\d]*(?:;[a-zA-Z\d]*)*)?\u0007)|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-ntqry=><~]))/g;

  internal.define("util", () => {
    const { INSPECT, coded, defineHidden, invalid, needFunction, needObject, needString } = internal.node;
    const { isDeepStrictEqual } = internal.use("equality");
    const types = internal.use("utilTypes");

    // ---- inspect

    const defaults = {
      showHidden: false, depth: 2, colors: false, customInspect: true, maxArrayLength: 100, breakLength: 80,
      compact: 3, sorted: false, getters: false, numericSeparator: false,
    };
    const stylized = (text) => text;

    function inspect(value, options, ...legacy) {
      let given = options;
      if (typeof options === "boolean") given = { showHidden: options, depth: legacy[0] };
      const settings = { ...defaults, ...given, stylize: stylized };
      const depth = settings.depth ?? Infinity;
      const custom = (object, at) => {
        const method = object[INSPECT];
        if (typeof method !== "function" || method === inspect) return undefined;
        const remainingDepth = depth - at;
        const shown = ReflectApply(method, object, [remainingDepth, { ...settings, depth: remainingDepth }, inspect]);
        if (shown === object) return undefined;
        return typeof shown === "string" ? shown : inspect(shown, { ...settings, depth: remainingDepth });
      };
      return internal.inspectWith(value, {
        __proto__: null, depth, items: settings.maxArrayLength ?? Infinity, breakLength: settings.breakLength,
        custom: settings.customInspect ? custom : null,
      });
    }
    inspect.custom = INSPECT;
    ObjectDefineProperty(inspect, "defaultOptions", {
      __proto__: null, enumerable: true,
      get: () => defaults,
      set: (options) => {
        const changed = { ...needObject(options, "options") };
        const keys = ReflectOwnKeys(changed);
        for (let i = 0; i < keys.length; i++) defaults[keys[i]] = changed[keys[i]];
      },
    });

    // ---- format

    // Returns whether a value has its own `toString`, or inherits one from a class that is not
    // built in.
    const hasOwnText = (value) => {
      for (let object = value; object !== null; object = ObjectGetPrototypeOf(object)) {
        if (ReflectGetOwnPropertyDescriptor(object, "toString") === undefined) continue;
        if (object === value) return true;
        return StringPrototypeIndexOf(FunctionPrototypeToString(object.constructor ?? hasOwnText), "[native code]") < 0;
      }
      return false;
    };
    function formatted(specifier, value, options) {
      switch (specifier) {
        case "s":
          if (typeof value === "bigint") return `${value}n`;
          if (ObjectIs(value, -0)) return "-0";
          if (!isObject(value) || typeof value === "function") return typeof value === "symbol" ? inspect(value) : `${value}`;
          return types.isNativeError(value) || hasOwnText(value) ? `${value}`
            : inspect(value, { ...options, depth: 0, colors: false });
        case "d": case "i": case "f":
          if (typeof value === "bigint" && specifier !== "f") return `${value}n`;
          if (typeof value === "symbol" || (isObject(value) && specifier === "d")) return "NaN";
          return inspect(specifier === "d" ? Number(value) : specifier === "i" ? parseInt(value, 10) : parseFloat(value));
        case "j":
          try {
            return `${JSONStringify(value)}`;
          } catch (error) {
            if (error instanceof TypeError) return "[Circular]";
            throw error;
          }
        case "o": return inspect(value, { ...options, showHidden: true, depth: 4 });
        case "O": return inspect(value, options);
        default: return "";
      }
    }

    function formatWithOptions(options, ...values) {
      needObject(options, "inspectOptions");
      let out = "", next = 0;
      if (typeof values[0] === "string") {
        const text = values[0];
        next = 1;
        let from = 0;
        for (let i = StringPrototypeIndexOf(text, "%"); i >= 0 && i < text.length - 1 && values.length > 1;) {
          const specifier = text[i + 1];
          if (specifier === "%") {
            out += StringPrototypeSlice(text, from, i + 1);
            from = i + 2;
          } else if (next < values.length && StringPrototypeIndexOf("sdifjoOc", specifier) >= 0) {
            out += StringPrototypeSlice(text, from, i) + formatted(specifier, values[next++], options);
            from = i + 2;
          }
          i = StringPrototypeIndexOf(text, "%", i + (from === i + 2 ? 2 : 1));
        }
        out += StringPrototypeSlice(text, from);
      }
      for (; next < values.length; next++) {
        const value = values[next];
        if (next > 0) out += " ";
        out += typeof value === "string" ? value : inspect(value, options);
      }
      return out;
    }
    const format = (...values) => formatWithOptions({}, ...values);

    // ---- Callbacks and promises

    const PROMISIFIED = SymbolFor("nodejs.util.promisify.custom");

    function promisify(original) {
      needFunction(original, "original");
      // The callbacks of timers do not receive an error and a value.
      const timers = internal.use("timers");
      const custom = original === setTimeout || original === timers.setTimeout ? timers.promises.setTimeout
        : original === timers.setImmediate ? timers.promises.setImmediate
        : original[PROMISIFIED];
      if (custom !== undefined && custom !== null) {
        return defineHidden(needFunction(custom, "util.promisify.custom"), { [PROMISIFIED]: custom });
      }
      function promised(...args) {
        return new Promise((resolve, reject) => {
          ArrayPrototypePush(args, (error, value) => {
            if (error) reject(error);
            else resolve(value);
          });
          ReflectApply(original, this, args);
        });
      }
      ObjectSetPrototypeOf(promised, ObjectGetPrototypeOf(original));
      defineHidden(promised, { [PROMISIFIED]: promised });
      return copyOwnProperties(promised, original);
    }
    promisify.custom = PROMISIFIED;

    // Copies the own properties of one function to another.
    function copyOwnProperties(wrapper, original) {
      const keys = ReflectOwnKeys(original);
      for (let i = 0; i < keys.length; i++) {
        const own = ReflectGetOwnPropertyDescriptor(wrapper, keys[i]);
        if (own !== undefined && !own.configurable) continue;
        ObjectDefineProperty(wrapper, keys[i], ReflectGetOwnPropertyDescriptor(original, keys[i]));
      }
      return wrapper;
    }

    function callbackify(original) {
      needFunction(original, "original");
      function called(...args) {
        const callback = needFunction(args[args.length - 1], "last argument");
        args.length -= 1;
        const callLater = (...results) => queueMicrotask(() => ReflectApply(callback, this, results));
        PromisePrototypeThen(
          (async () => await ReflectApply(original, this, args))(),
          (value) => callLater(null, value),
          (reason) => {
            if (reason) return callLater(reason);
            const error = coded(Error, "ERR_FALSY_VALUE_REJECTION", "Promise was rejected with falsy value");
            error.reason = reason;
            return callLater(error);
          },
        );
      }
      copyOwnProperties(called, original);
      return defineHidden(called, { name: `${original.name}Callbackified`, length: original.length + 1 });
    }

    // ---- Other functions

    function inherits(constructor, parent) {
      needFunction(constructor, "ctor");
      needFunction(parent, "superCtor");
      if (parent.prototype === undefined) throw invalid("superCtor.prototype", "of type object", undefined);
      ObjectDefineProperty(constructor, "super_", { __proto__: null, value: parent, writable: true, configurable: true });
      ObjectSetPrototypeOf(constructor.prototype, parent.prototype);
    }

    const warned = { __proto__: null };
    function deprecate(fn, message, code = undefined) {
      let hasWarned = false;
      function deprecated(...args) {
        if (!hasWarned) {
          hasWarned = true;
          if (code === undefined || !warned[code]) {
            if (code !== undefined) warned[code] = true;
            internal.console.warn(`${code === undefined ? "" : `[${code}] `}DeprecationWarning: ${message}`);
          }
        }
        return new.target === undefined ? ReflectApply(fn, this, args) : ReflectConstruct(fn, args, new.target);
      }
      ObjectSetPrototypeOf(deprecated, fn);
      if (fn.prototype !== undefined) deprecated.prototype = fn.prototype;
      return deprecated;
    }

    // Returns a function that logs if the environment variable NODE_DEBUG lists the section.
    function debuglog(section, callback = undefined) {
      const name = StringPrototypeToUpperCase(needString(section, "set"));
      let enabled;
      const isEnabled = () => {
        enabled ??= ArrayPrototypeIncludes(
          StringPrototypeSplit(StringPrototypeToUpperCase(`${internal.use("process").env.NODE_DEBUG ?? ""}`), ","), name);
        return enabled;
      };
      const log = (...values) => {
        if (isEnabled()) internal.console.error(`${name} ${format(...values)}`);
      };
      ObjectDefineProperty(log, "enabled", { __proto__: null, get: isEnabled, enumerable: true });
      if (typeof callback === "function") callback(log);
      return log;
    }

    const { TextDecoder, TextEncoder } = internal.encoding();
    return {
      TextDecoder,
      TextEncoder,
      aborted: async (signal) => {
        internal.node.needSignal(signal, "signal");
        if (!signal.aborted) await new Promise((resolve) => internal.abort().onAbort(signal, () => resolve()));
      },
      callbackify,
      debug: debuglog,
      debuglog,
      deprecate,
      format,
      formatWithOptions,
      inherits,
      inspect,
      isArray: ArrayIsArray,
      isDeepStrictEqual,
      promisify,
      stripVTControlCharacters: (text) => RegExpPrototypeSymbolReplace(CONTROL, needString(text, "str"), ""),
      toUSVString: (text) => StringPrototypeToWellFormed(`${text}`),
      types,
    };
  });
})
