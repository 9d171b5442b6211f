// FormData (XMLHttpRequest §4): a list of names and values, each of which is a string or a File.
//: late, after blob.js mime.js
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, ArrayPrototypeSplice, StringPrototypeSlice, TypeError } = internal.primordials;
  const { USVString, expose, isObject, iterable, needs } = internal.webidl;

  internal.later("forms", ["FormData"], () => {
    const { bytesOf, isBlob, isFile, modifiedOf, nameOf, newFile, typeOf } = internal.blobs();

    // Converts a value to an entry's value: a Blob that is not a File, and a File that gets another
    // name, become a new File.
    function entryValue(value, filename) {
      if (typeof value === "string" || (isFile(value) && filename === null)) return value;
      const name = filename ?? (isFile(value) ? nameOf(value) : "blob");
      return isFile(value)
        ? newFile(bytesOf(value), name, typeOf(value), modifiedOf(value))
        : newFile(bytesOf(value), name, typeOf(value));
    }

    // Converts the arguments of `append` and `set`.
    function entry(args, what) {
      needs(args.length, 2, what);
      const name = USVString(args[0]);
      const value = args[1];
      if (isObject(value) && isBlob(value)) {
        const filename = args.length > 2 && args[2] !== undefined ? USVString(args[2]) : null;
        return { __proto__: null, name, value: entryValue(value, filename) };
      }
      if (args.length > 2) throw new TypeError(`${what}: only a Blob has a file name`);
      return { __proto__: null, name, value: USVString(value) };
    }

    // This file passes this value to the constructor as the first argument, and the list as the
    // second one.
    const CREATE = { __proto__: null };
    let listOf; // checks the brand
    let isFormData;

    class FormData {
      // name, value, name, value, …
      #list = [];

      static {
        listOf = (form) => form.#list;
        isFormData = (value) => isObject(value) && #list in value;
      }

      constructor(form = undefined, submitter = undefined) {
        if (form === CREATE) {
          this.#list = submitter;
          return;
        }
        if (form !== undefined) throw new TypeError("FormData: HTML forms are not supported; omit the argument");
      }

      append(name, value) {
        const list = this.#list;
        const made = entry(arguments, "FormData.append");
        ArrayPrototypePush(list, made.name);
        ArrayPrototypePush(list, made.value);
      }

      delete(name) {
        const list = this.#list;
        needs(arguments.length, 1, "FormData.delete");
        const key = USVString(name);
        for (let i = list.length - 2; i >= 0; i -= 2) if (list[i] === key) ArrayPrototypeSplice(list, i, 2);
      }

      get(name) {
        const list = this.#list;
        needs(arguments.length, 1, "FormData.get");
        const key = USVString(name);
        for (let i = 0; i < list.length; i += 2) if (list[i] === key) return list[i + 1];
        return null;
      }

      getAll(name) {
        const list = this.#list;
        needs(arguments.length, 1, "FormData.getAll");
        const key = USVString(name);
        const all = [];
        for (let i = 0; i < list.length; i += 2) if (list[i] === key) ArrayPrototypePush(all, list[i + 1]);
        return all;
      }

      has(name) {
        const list = this.#list;
        needs(arguments.length, 1, "FormData.has");
        const key = USVString(name);
        for (let i = 0; i < list.length; i += 2) if (list[i] === key) return true;
        return false;
      }

      set(name, value) {
        const list = this.#list;
        const made = entry(arguments, "FormData.set");
        let first = -1;
        for (let i = list.length - 2; i >= 0; i -= 2) {
          if (list[i] !== made.name) continue;
          if (first >= 0) ArrayPrototypeSplice(list, first, 2);
          first = i;
        }
        if (first < 0) {
          ArrayPrototypePush(list, made.name);
          ArrayPrototypePush(list, made.value);
        } else {
          list[first + 1] = made.value;
        }
      }
    }
    iterable(FormData, (form) => listOf(form));
    expose(FormData);
    internal.describeBy("FormData", isFormData, listOf);

    const { initializers } = internal.body;
    initializers[initializers.length] = (value) => {
      if (!isFormData(value)) return null;
      const { source, type } = internal.multipart().encode(listOf(value));
      return internal.body.of(source, type);
    };

    // Parses a body of this type as a form.
    const parse = (bytes, type) => {
      if (type !== null && type.essence === "application/x-www-form-urlencoded") {
        const text = internal.decodeUtf8(bytes);
        // The byte order mark remains, because it is a part of the first name.
        const marked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
        return new FormData(CREATE, internal.parseForm(marked ? `\uFEFF${text}` : text));
      }
      if (type !== null && type.essence === "multipart/form-data") {
        const boundary = internal.mime.parameter(type, "boundary");
        if (boundary !== null) return new FormData(CREATE, internal.multipart().parse(bytes, boundary));
        throw new TypeError("The body's type is multipart/form-data without its boundary");
      }
      const what = type === null ? "no type" : `the type ${StringPrototypeSlice(type.essence, 0, 100)}`;
      throw new TypeError(`A form must have the type multipart/form-data or application/x-www-form-urlencoded, but has ${what}`);
    };
    return { FormData, isFormData, parse };
  });
})
