// node:path, with the POSIX rules on every platform.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayPrototypeJoin, ArrayPrototypePop, ArrayPrototypePush, StringPrototypeEndsWith, StringPrototypeIndexOf,
    StringPrototypeLastIndexOf, StringPrototypeSlice, StringPrototypeSplit, StringPrototypeStartsWith,
  } = internal.primordials;

  internal.define("path", () => {
    const { needObject, needString } = internal.node;
    const isAbsolute = (path) => StringPrototypeStartsWith(needString(path, "path"), "/");

    // Splits a path into segments. Drops `.`, resolves `..` against the preceding segment, and
    // keeps a leading `..` only if `keepsParents` is true.
    function segments(path, keepsParents) {
      const parts = StringPrototypeSplit(path, "/");
      const kept = [];
      for (let i = 0; i < parts.length; i++) {
        if (parts[i] === "" || parts[i] === ".") continue;
        if (parts[i] !== "..") ArrayPrototypePush(kept, parts[i]);
        else if (kept.length > 0 && kept[kept.length - 1] !== "..") ArrayPrototypePop(kept);
        else if (keepsParents) ArrayPrototypePush(kept, "..");
      }
      return kept;
    }

    function normalize(path) {
      if (needString(path, "path") === "") return ".";
      const absolute = isAbsolute(path);
      let normal = ArrayPrototypeJoin(segments(path, !absolute), "/");
      if (normal === "") return absolute ? "/" : StringPrototypeEndsWith(path, "/") ? "./" : ".";
      if (StringPrototypeEndsWith(path, "/")) normal += "/";
      return absolute ? `/${normal}` : normal;
    }

    function join(...paths) {
      let joined = "";
      for (let i = 0; i < paths.length; i++) {
        if (needString(paths[i], "path") === "") continue;
        joined = joined === "" ? paths[i] : `${joined}/${paths[i]}`;
      }
      return joined === "" ? "." : normalize(joined);
    }

    // The working directory is always the root.
    function resolve(...paths) {
      let resolved = "";
      for (let i = paths.length - 1; i >= 0 && !StringPrototypeStartsWith(resolved, "/"); i--) {
        if (needString(paths[i], `paths[${i}]`) !== "") resolved = `${paths[i]}/${resolved}`;
      }
      return `/${ArrayPrototypeJoin(segments(resolved, false), "/")}`;
    }

    function relative(from, to) {
      needString(from, "from");
      needString(to, "to");
      const start = segments(resolve(from), false);
      const end = segments(resolve(to), false);
      let common = 0;
      while (common < start.length && common < end.length && start[common] === end[common]) common++;
      const steps = [];
      for (let i = common; i < start.length; i++) ArrayPrototypePush(steps, "..");
      for (let i = common; i < end.length; i++) ArrayPrototypePush(steps, end[i]);
      return ArrayPrototypeJoin(steps, "/");
    }

    // Returns the index at which the path ends without its trailing slashes.
    function lastEnd(path) {
      let end = path.length;
      while (end > 1 && path[end - 1] === "/") end--;
      return end;
    }

    function dirname(path) {
      if (needString(path, "path") === "") return ".";
      const slash = StringPrototypeLastIndexOf(path, "/", lastEnd(path) - 1);
      if (slash < 0) return ".";
      const end = lastEnd(StringPrototypeSlice(path, 0, slash));
      if (end === 0) return "/";
      return slash === 1 && path[0] === "/" ? "//" : StringPrototypeSlice(path, 0, end);
    }

    function basename(path, suffix = undefined) {
      if (suffix !== undefined) needString(suffix, "suffix");
      let end = needString(path, "path").length;
      while (end > 0 && path[end - 1] === "/") end--;
      const base = StringPrototypeSlice(path, StringPrototypeLastIndexOf(path, "/", end - 1) + 1, end);
      return suffix !== undefined && suffix !== base && StringPrototypeEndsWith(base, suffix)
        ? StringPrototypeSlice(base, 0, base.length - suffix.length) : base;
    }

    function extname(path) {
      const base = basename(path);
      const dot = StringPrototypeLastIndexOf(base, ".");
      return dot <= 0 || base === ".." ? "" : StringPrototypeSlice(base, dot);
    }

    function parse(path) {
      const root = isAbsolute(path) ? "/" : "";
      const base = basename(path);
      const ext = extname(path);
      const hasSlash = StringPrototypeIndexOf(StringPrototypeSlice(path, 0, lastEnd(path)), "/") >= 0;
      return {
        root, dir: hasSlash && path !== "" ? dirname(path) : "", base, ext,
        name: StringPrototypeSlice(base, 0, base.length - ext.length),
      };
    }

    function format(parts) {
      needObject(parts, "pathObject");
      const { dir, root, base, name, ext } = parts;
      const directory = dir || root;
      const dotted = ext && ext[0] !== "." ? `.${ext}` : ext ?? "";
      const last = base || `${name || ""}${dotted}`;
      if (!directory) return last;
      return directory === root ? `${directory}${last}` : `${directory}/${last}`;
    }

    const path = {
      basename, delimiter: ":", dirname, extname, format, isAbsolute, join, normalize, parse, relative, resolve, sep: "/",
      toNamespacedPath: (path) => path,
    };
    path.posix = path;
    return path;
  });
})
