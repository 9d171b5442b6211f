// node:url: the platform's URL and the functions of Node.js around it. The legacy parser,
// `url.parse`, is not implemented, because its results differ from those of the URL standard.
//: module
(function (internal) {
  "use strict";

  const {
    RegExpPrototypeExec, RegExpPrototypeSymbolReplace, StringPrototypeStartsWith, TypeError, decodeURIComponent,
    encodeURIComponent,
  } = internal.primordials;
  const { URL, URLSearchParams } = internal.platform;

  internal.define("url", () => {
    const { coded, invalid, needString, refused } = internal.node;
    const isURL = (value) => typeof value?.href === "string" && typeof value.protocol === "string" && value.auth === undefined;

    const ENCODED_SLASH = /%2f/i;
    // Characters of a file name that are special in a URL's path.
    const SPECIAL = /[%\\\n\r\t?#]/g;
    const ESCAPES = { __proto__: null, "%": "%25", "\\": "%5C", "\n": "%0A", "\r": "%0D", "\t": "%09", "?": "%3F", "#": "%23" };

    function fileURLToPath(given) {
      const url = typeof given === "string" ? new URL(given) : given;
      if (!isURL(url)) throw invalid("path", "of type string or an instance of URL", given);
      if (url.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
      if (url.hostname !== "") {
        throw coded(TypeError, "ERR_INVALID_FILE_URL_HOST", 'File URL host must be "localhost" or empty on linux');
      }
      if (RegExpPrototypeExec(ENCODED_SLASH, url.pathname) !== null) {
        throw coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters");
      }
      return decodeURIComponent(url.pathname);
    }

    function pathToFileURL(path) {
      const { resolve } = internal.use("path");
      needString(path, "path");
      const trailing = path[path.length - 1] === "/" && path.length > 1 ? "/" : "";
      return new URL(`file://${RegExpPrototypeSymbolReplace(SPECIAL, `${resolve(path)}${trailing}`, (at) => ESCAPES[at])}`);
    }

    // Formats a URL without the parts that `options` excludes, a text that is a URL, or an object
    // of the kind that `url.parse` returns. `options` apply only to instances of URL.
    function format(given, options = undefined) {
      if (typeof given === "string") return new URL(given).href;
      if (!isURL(given)) return formatParts(given);
      const { auth = true, fragment = true, search = true } = options ?? {};
      const url = new URL(given.href);
      if (!auth) url.username = url.password = "";
      if (!fragment) url.hash = "";
      if (!search) url.search = "";
      return url.href;
    }

    function formatParts(parts) {
      if (typeof parts !== "object" || parts === null) throw invalid("urlObject", "one of type object or string", parts);
      let { protocol = "", host, hash = "", search, pathname = "" } = parts;
      const { auth, hostname, port, query, slashes } = parts;
      if (protocol && !protocol.endsWith(":")) protocol += ":";
      const login = auth ? `${auth}@` : "";
      if (host) host = login + host;
      else if (hostname) host = `${login}${hostname.includes(":") && !hostname.startsWith("[") ? `[${hostname}]` : hostname}${port ? `:${port}` : ""}`;
      search ??= query && typeof query === "object" ? internal.use("querystring").stringify(query) : "";
      if (search && !search.startsWith("?")) search = `?${search}`;
      if (hash && !hash.startsWith("#")) hash = `#${hash}`;
      const HIERARCHICAL = ["http:", "https:", "ftp:", "gopher:", "file:", "ws:", "wss:"];
      let authority = host ?? "";
      if (slashes || HIERARCHICAL.includes(protocol)) {
        if (slashes || host) {
          if (pathname && !StringPrototypeStartsWith(pathname, "/")) pathname = `/${pathname}`;
          authority = `//${authority}`;
        } else if (protocol === "file:") {
          authority = "//";
        }
      }
      return `${protocol}${authority}${pathname.replace(/[?#]/g, encodeURIComponent)}${search.replaceAll("#", "%23")}${hash}`;
    }

    const asHost = (domain) => {
      try {
        return new URL(`ws://${domain}`).hostname;
      } catch {
        return "";
      }
    };
    const domainToASCII = (domain) => asHost(`${domain}`);

    function urlToHttpOptions(url) {
      const { hostname, protocol, hash, search, pathname, href, port, username, password } = url;
      const options = {
        protocol,
        hostname: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
        hash, search, pathname, path: `${pathname}${search}`, href,
      };
      if (port !== "") options.port = +port;
      if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
      return options;
    }

    function parse() {
      throw refused("url.parse", "its results differ from those of the URL standard; use new URL(…)");
    }
    const resolve = (from, to) => {
      const base = new URL(to, new URL(from, "resolve://"));
      return base.protocol === "resolve:" ? `${base.pathname}${base.search}${base.hash}` : base.href;
    };

    return {
      URL, URLSearchParams, domainToASCII, fileURLToPath, format, parse, pathToFileURL, resolve,
      urlToHttpOptions,
    };
  });
})
