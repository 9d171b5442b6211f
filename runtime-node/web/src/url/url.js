// URL and URLSearchParams (URL §6). Native code parses and serializes. A URL's record is immutable
// and may be shared: it holds the serialization and the offsets of its parts.
//: eager, after describe.js urlencoded.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeSort, StringPrototypeSlice, TypeError, Uint32Array,
  } = internal.primordials;
  const { parseForm, serializeForm } = internal;
  const { USVString, expose, isObject, iterable, needs, pairs } = internal.webidl;

  // ---- Records

  // The offsets of the latest parse, which native code writes. The array is created on first use,
  // and is not in the snapshot.
  let offsets;
  // The latest record, which `new URL(request.url)` uses after the request itself has parsed its
  // URL.
  let latest = { href: "" };

  const record = (href) => ({
    href,
    protocolEnd: offsets[0],
    usernameStart: offsets[1],
    usernameEnd: offsets[2],
    passwordStart: offsets[3],
    passwordEnd: offsets[4],
    hostStart: offsets[5],
    hostEnd: offsets[6],
    portEnd: offsets[7],
    pathStart: offsets[8],
    pathEnd: offsets[9],
    queryEnd: offsets[10],
  });

  // The maximum length of an input, in UTF-16 code units. Chromium has the same maximum. The length
  // is bounded because the parser cannot be terminated.
  const MAX_LENGTH = 2 ** 21;

  // Returns the record of `input`, a USVString, against `base`, a USVString or undefined; null if
  // the input is not a URL.
  function parse(input, base) {
    if (base === undefined && input === latest.href && input !== "") return latest;
    if (input.length > MAX_LENGTH || base?.length > MAX_LENGTH) return null;
    offsets ??= new Uint32Array(11);
    const href = internal.ops.urlParse(input, base, offsets);
    if (href === undefined) return null;
    return (latest = record(href));
  }

  const shown = (input) => (input.length > 200 ? `${StringPrototypeSlice(input, 0, 200)}…` : input);

  // The parts that can be set, with their numbers in native code.
  const PROTOCOL = 0, USERNAME = 1, PASSWORD = 2, HOST = 3, HOSTNAME = 4, PORT = 5, PATHNAME = 6, SEARCH = 7, HASH = 8;

  function change(current, part, value) {
    if (current.href.length + value.length > MAX_LENGTH) return current;
    const href = internal.ops.urlSet(current.href, part, value, offsets ??= new Uint32Array(11));
    return href === undefined || href === current.href ? current : record(href);
  }

  const search = (u) => (u.queryEnd - u.pathEnd > 1 ? StringPrototypeSlice(u.href, u.pathEnd, u.queryEnd) : "");

  function origin(u) {
    const scheme = StringPrototypeSlice(u.href, 0, u.protocolEnd);
    switch (scheme) {
      case "http": case "https": case "ws": case "wss": case "ftp":
        return `${scheme}://${StringPrototypeSlice(u.href, u.hostStart, u.portEnd)}`;
      case "blob": {
        const inner = parse(StringPrototypeSlice(u.href, u.pathStart, u.pathEnd), undefined);
        if (inner === null) return "null";
        const within = StringPrototypeSlice(inner.href, 0, inner.protocolEnd);
        return within === "http" || within === "https" ? origin(inner) : "null";
      }
      default:
        return "null";
    }
  }

  // ---- URLSearchParams

  let attach; // (params, url): makes `params` the live view of the URL's query
  let refill; // (params, list)
  let listOf; // checks the brand
  let isParams;
  let setQuery; // (url, query)

  // Keeps the pairs of a list at the indices for which `holds` returns true.
  function keep(list, holds) {
    let left = 0;
    for (let i = 0; i < list.length; i += 2) {
      if (!holds(i)) continue;
      list[left++] = list[i];
      list[left++] = list[i + 1];
    }
    list.length = left;
  }

  class URLSearchParams {
    // name, value, name, value, …
    #list = [];
    #url = null;

    static {
      attach = (params, url) => {
        params.#url = url;
      };
      refill = (params, list) => {
        params.#list = list;
      };
      listOf = (params) => params.#list;
      isParams = (value) => isObject(value) && #list in value;
    }

    constructor(init = "") {
      if (isObject(init)) {
        this.#list = pairs(init, USVString, "URLSearchParams");
      } else {
        const string = USVString(init);
        this.#list = parseForm(string[0] === "?" ? StringPrototypeSlice(string, 1) : string);
      }
    }

    #changed() {
      if (this.#url !== null) setQuery(this.#url, serializeForm(this.#list));
    }

    get size() {
      return this.#list.length / 2;
    }

    append(name, value) {
      const list = this.#list;
      needs(arguments.length, 2, "URLSearchParams.append");
      const key = USVString(name);
      const text = USVString(value);
      ArrayPrototypePush(list, key);
      ArrayPrototypePush(list, text);
      this.#changed();
    }

    delete(name, value = undefined) {
      const list = this.#list;
      needs(arguments.length, 1, "URLSearchParams.delete");
      const key = USVString(name);
      const text = value === undefined ? undefined : USVString(value);
      keep(list, (at) => list[at] !== key || (text !== undefined && list[at + 1] !== text));
      this.#changed();
    }

    get(name) {
      const list = this.#list;
      needs(arguments.length, 1, "URLSearchParams.get");
      const key = USVString(name);
      for (let i = 0; i < list.length; i += 2) if (list[i] === key) return list[i + 1];
      return null;
    }

    getAll(name) {
      const list = this.#list;
      needs(arguments.length, 1, "URLSearchParams.getAll");
      const key = USVString(name);
      const all = [];
      for (let i = 0; i < list.length; i += 2) if (list[i] === key) ArrayPrototypePush(all, list[i + 1]);
      return all;
    }

    has(name, value = undefined) {
      const list = this.#list;
      needs(arguments.length, 1, "URLSearchParams.has");
      const key = USVString(name);
      const text = value === undefined ? undefined : USVString(value);
      for (let i = 0; i < list.length; i += 2) {
        if (list[i] === key && (text === undefined || list[i + 1] === text)) return true;
      }
      return false;
    }

    set(name, value) {
      const list = this.#list;
      needs(arguments.length, 2, "URLSearchParams.set");
      const key = USVString(name);
      const text = USVString(value);
      let found = false;
      keep(list, (at) => {
        if (list[at] !== key) return true;
        if (found) return false;
        list[at + 1] = text;
        return (found = true);
      });
      if (!found) {
        ArrayPrototypePush(list, key);
        ArrayPrototypePush(list, text);
      }
      this.#changed();
    }

    sort() {
      const list = this.#list;
      const order = [];
      for (let i = 0; i < list.length; i += 2) ArrayPrototypePush(order, { name: list[i], value: list[i + 1] });
      // Compares code units. ECMAScript's sort is stable.
      ArrayPrototypeSort(order, (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      for (let i = 0; i < order.length; i++) {
        list[2 * i] = order[i].name;
        list[2 * i + 1] = order[i].value;
      }
      this.#changed();
    }

    toString() {
      return serializeForm(this.#list);
    }
  }
  iterable(URLSearchParams, (params) => listOf(params));
  expose(URLSearchParams);

  // ---- URL

  class URL {
    #u;
    // The live view of the query, which is created on first use.
    #params = null;

    static {
      setQuery = (url, query) => {
        url.#u = change(url.#u, SEARCH, query);
      };
      internal.isURL = (value) => isObject(value) && #u in value;
      internal.hrefOf = (url) => url.#u.href;
    }

    constructor(url, base = undefined) {
      needs(arguments.length, 1, "URL");
      const input = USVString(url);
      const against = base === undefined ? undefined : USVString(base);
      this.#u = parse(input, against);
      if (this.#u === null) {
        throw new TypeError(`Invalid URL: '${shown(input)}'${against === undefined ? "" : ` against '${shown(against)}'`}`);
      }
    }

    static parse(url, base = undefined) {
      needs(arguments.length, 1, "URL.parse");
      const u = parse(USVString(url), base === undefined ? undefined : USVString(base));
      return u === null ? null : new URL(u.href);
    }

    static canParse(url, base = undefined) {
      needs(arguments.length, 1, "URL.canParse");
      return parse(USVString(url), base === undefined ? undefined : USVString(base)) !== null;
    }

    // Setters that change the query call `#refill`, which updates the live view.
    #set(part, value) {
      this.#u = change(this.#u, part, USVString(value));
    }
    #refill() {
      if (this.#params !== null) refill(this.#params, parseForm(StringPrototypeSlice(search(this.#u), 1)));
    }

    get href() {
      return this.#u.href;
    }
    set href(value) {
      this.#u; // a brand check, before any code of the value runs
      const input = USVString(value);
      const u = parse(input, undefined);
      if (u === null) throw new TypeError(`Invalid URL: '${shown(input)}'`);
      this.#u = u;
      this.#refill();
    }
    toString() {
      return this.#u.href;
    }
    get origin() {
      return origin(this.#u);
    }
    get protocol() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, 0, u.protocolEnd + 1);
    }
    set protocol(value) {
      this.#set(PROTOCOL, value);
    }
    get username() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, u.usernameStart, u.usernameEnd);
    }
    set username(value) {
      this.#set(USERNAME, value);
    }
    get password() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, u.passwordStart, u.passwordEnd);
    }
    set password(value) {
      this.#set(PASSWORD, value);
    }
    get host() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, u.hostStart, u.portEnd);
    }
    set host(value) {
      this.#set(HOST, value);
    }
    get hostname() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, u.hostStart, u.hostEnd);
    }
    set hostname(value) {
      this.#set(HOSTNAME, value);
    }
    get port() {
      const u = this.#u;
      return u.portEnd > u.hostEnd ? StringPrototypeSlice(u.href, u.hostEnd + 1, u.portEnd) : "";
    }
    set port(value) {
      this.#set(PORT, value);
    }
    get pathname() {
      const u = this.#u;
      return StringPrototypeSlice(u.href, u.pathStart, u.pathEnd);
    }
    set pathname(value) {
      this.#set(PATHNAME, value);
    }
    get search() {
      return search(this.#u);
    }
    set search(value) {
      this.#set(SEARCH, value);
      this.#refill();
    }
    get searchParams() {
      if (this.#params === null) {
        const params = new URLSearchParams();
        refill(params, parseForm(StringPrototypeSlice(search(this.#u), 1)));
        attach(params, this);
        this.#params = params;
      }
      return this.#params;
    }
    get hash() {
      const u = this.#u;
      return u.href.length - u.queryEnd > 1 ? StringPrototypeSlice(u.href, u.queryEnd) : "";
    }
    set hash(value) {
      this.#set(HASH, value);
    }
    toJSON() {
      return this.#u.href;
    }
  }
  expose(URL);
  internal.globals({ URL, URLSearchParams });

  // `parseUrl` returns the serialization of a USVString, or null. `urlHasCredentials` returns
  // whether the URL has a user name or a password.
  internal.parseUrl = (input) => parse(input, undefined)?.href ?? null;
  internal.urlHasCredentials = (input) => {
    const u = parse(input, undefined);
    return u !== null && (u.usernameEnd > u.usernameStart || u.passwordEnd > u.passwordStart);
  };
  internal.isURLSearchParams = isParams;
  internal.serializeURLSearchParams = (params) => serializeForm(listOf(params));
  internal.searchParamsList = listOf;
  internal.describeBy("URLSearchParams", isParams, listOf);
  internal.describe("URL", internal.isURL, URL, [
    "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search",
    "searchParams", "hash",
  ]);
})
