// The types of `internal` for the interfaces' JavaScript, except for those that tsc infers.

export {};

// ---- Built-ins (bootstrap.js)

type Constructors = Pick<
  typeof globalThis,
  | "AggregateError" | "Array" | "ArrayBuffer" | "BigInt" | "BigInt64Array" | "BigUint64Array" | "Boolean" | "DataView"
  | "Date" | "Error" | "EvalError" | "FinalizationRegistry" | "Float32Array" | "Float64Array" | "Function" | "Int16Array"
  | "Int32Array" | "Int8Array" | "Map" | "Number" | "Object" | "Promise" | "Proxy" | "RangeError" | "ReferenceError"
  | "RegExp" | "Set" | "String" | "Symbol" | "SyntaxError" | "TypeError" | "URIError" | "Uint16Array" | "Uint32Array"
  | "Uint8Array" | "Uint8ClampedArray" | "WeakMap" | "WeakRef" | "WeakSet"
>;
type Namespaces = Pick<typeof globalThis, "JSON" | "Math" | "Reflect">;
type Functions = Pick<
  typeof globalThis,
  | "parseInt" | "parseFloat" | "isNaN" | "isFinite" | "decodeURI" | "decodeURIComponent" | "encodeURI"
  | "encodeURIComponent"
>;

// The name of a property as a part of the name of a primordial.
type Pascal<K> = K extends string ? Capitalize<K> : K extends symbol ? OfSymbol<K> : never;
type OfSymbol<K extends symbol> = {
  [N in keyof SymbolConstructor & string]: SymbolConstructor[N] extends symbol
    ? K extends SymbolConstructor[N] ? `Symbol${Capitalize<N>}` : never
    : never;
}[keyof SymbolConstructor & string];

// The result type of a generic method: `any` instead of `unknown`.
type Known<T> = unknown extends T ? any : T extends unknown[] ? (unknown[] extends T ? any[] : T) : T;
// Omits an overload that does not exist: for it, `infer` yields parameters of unknown types.
type Unless<A, T> = unknown[] extends A ? never : T;
// A method as a function whose first argument is the receiver. Its overloads become one signature.
type Uncurried<Self, F> =
  F extends {
    (...args: infer A): infer R;
    (...args: infer B): infer S;
    (...args: infer C): infer T;
    (...args: infer D): infer U;
  }
    ? (self: Self, ...args: Unless<A, A> | Unless<B, B> | Unless<C, C> | D) =>
        Known<Unless<A, R> | Unless<B, S> | Unless<C, T> | U>
    : never;

type Statics<Name extends string, C> = { [K in keyof C as `${Name}${Pascal<K>}`]: C[K] };
type OfPrototype<Name extends string, T, Self = T> = {
  [K in keyof T as T[K] extends Function ? `${Name}Prototype${Pascal<K>}` : never]: Uncurried<Self, T[K]>;
} & {
  [K in keyof T as T[K] extends Function ? never : `${Name}PrototypeGet${Pascal<K>}`]: (self: Self) => T[K];
};
type Instance<C> = C extends { readonly prototype: infer T } ? T : never;
// The intersection of the members of a union.
type Intersection<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer I) => void ? I : never;
type OfConstructors = Intersection<
  {
    [N in keyof Constructors]: Statics<N, Constructors[N]> & OfPrototype<N, Instance<Constructors[N]>>;
  }[keyof Constructors]
>;
type OfNamespaces = Intersection<{ [N in keyof Namespaces]: Statics<N, Namespaces[N]> }[keyof Namespaces]>;
type OfTypedArrays = OfPrototype<"TypedArray", Uint8Array<ArrayBuffer>, ArrayBufferView>;

// Primordials that the rules above do not describe, or that accept more than TypeScript's own
// types.
interface Special extends Omit<OfTypedArrays, "TypedArrayPrototypeGetSymbolToStringTag"> {
  uncurryThis<Self, A extends unknown[], R>(f: (this: Self, ...args: A) => R): (self: Self, ...args: A) => R;
  parseInt(string: unknown, radix?: number): number;
  // The result is undefined for a property that does not exist, but nearly all callers know that
  // theirs exists.
  ObjectGetOwnPropertyDescriptor(object: any, key: PropertyKey): any;
  ReflectGetOwnPropertyDescriptor(object: any, key: PropertyKey): any;
  // The result does not narrow the type, because views of every kind pass through the same
  // functions.
  ArrayBufferIsView(value: unknown): boolean;
  DataViewPrototypeGetBuffer(self: ArrayBufferView): ArrayBuffer;
  DataViewPrototypeGetByteLength(self: ArrayBufferView): number;
  DataViewPrototypeGetByteOffset(self: ArrayBufferView): number;
  TypedArray: typeof Uint8Array;
  TypedArrayPrototypeGetSymbolToStringTag(value: unknown): string | undefined;
  IteratorPrototype: object;
  AsyncIteratorPrototype: object;
  ArrayIteratorPrototype: object;
}
type Primordials = Special & Omit<Constructors & Functions & OfConstructors & OfNamespaces, keyof Special>;

declare global {
  // ---- V8's additions to the language

  interface ErrorConstructor {
    captureStackTrace(object: object, constructor?: Function): void;
  }
  interface Error {
    toString(): string;
  }
  // Because the type of the value is `any`, `resolve` can be called without a value.
  interface PromiseConstructor {
    new (executor: (resolve: (value?: any) => void, reject: (reason?: any) => void) => void): Promise<any>;
    withResolvers(): { promise: Promise<any>; resolve(value?: any): void; reject(reason?: any): void };
  }
  namespace Intl {
    let v8BreakIterator: Function | undefined;
  }

  // ---- Forms of values

  // An object to which other code adds members.
  type Members = Record<PropertyKey, any>;
  // An object whose members are copied to other objects.
  type Methods = Members & ThisType<any>;

  // ---- Values that pass between JavaScript and native functions

  type View = ArrayBufferView;
  // A reference to a key that native code holds.
  type Handle = ArrayBuffer & { readonly isHandle: true };
  // A number that is exchanged once for a handle.
  type Ticket = number;
  // A value that is available immediately, or a promise of a value from another thread.
  type MaybePromise<T> = T | Promise<T>;
  // `undefined` stands for a stream, which further arguments name.
  type Body = string | View | null | undefined;
  // A response, or a failure, or null after an abort.
  type Outcome = Fetched | Failed | null;
  // The addresses of a host, or a failure.
  type Resolved = string[] | Failed;
  // A callback that receives the kind of an event of a socket, and the values of the event.
  type SocketCallback = (kind: number, first: any, second: any, third: any) => void;

  // The functions that native code calls by name.
  interface Hooks {
    bind(variables: object, fetchers: string[], workers: number): void;
    start(invocation: number, evaluation: Promise<unknown>, namespace: any): Promise<void>;
    scheduled(invocation: number, cron: string, time: number): Promise<void>;
    import(specifier: string, referrer: string, attributes: object): Promise<object>;
    fetch(invocation: number, method: string, url: string, hasBody: boolean, name: string): Promise<void>;
    rpc(invocation: number, name: string): void;
    json(text: string): unknown;
    stacks(): void;
    wasm(number: number, module: object, kept: ArrayBuffer): void;
    exception(name: string, message: string): Error;
    rejection(promise: Promise<unknown>, reason: unknown, isHandled: boolean): void;
    lazy(name: string): any;
    builtin(specifier: string): unknown[] | undefined;
  }

  // ---- Members that all files share

  interface Internal {
    primordials: Primordials;
    ops: Ops;
    hooks: Hooks;
    extras: {
      getContinuationPreservedEmbedderData(): any;
      setContinuationPreservedEmbedderData(data: unknown): void;
    };
    files: Record<string, string>;
    lazies: Record<string, string>;
    late: string | undefined;
    globals(object: object): void;
    later(key: string, names: string[], make: () => object): void;
    inspect(value: unknown): string;
    // V8's own `WebAssembly`, which `wasm.js` replaces.
    WebAssembly: any;

    // The following members are defined or replaced when the first object of an interface is
    // created.
    domExceptionParts(value: any): { name: string; message: string } | null;
    scopeListeners(type: string): number;
    isReadableStream(value: any): boolean;
    isWritableStream(value: any): boolean;
    isURL(value: any): boolean;
    hrefOf(url: any): string;
  }

  // Additional members for the files of built-in modules (node.js).
  interface ModuleInternal extends Internal {
    platform: Members;
    use: Use;
    find(specifier: string): any;
    node: Modules["shared"];
  }

  // ---- Functions in the copies of `check.mjs`: for an initial null or undefined, and for
  // `internal.later` and `internal.define`, which return nothing

  const $any: any;
  function $later<T extends object>(key: string, names: string[], make: () => T): () => T;
  function $define<T>(name: string, make: () => T & ThisType<any>): T;
}
