// node:dns: the addresses of names, as connections use them (`../sockets.rs`): only names that the
// Worker may connect to, and only addresses that it may reach. There are no other records.
//: module
(function (internal) {
  "use strict";

  const { Error, PromisePrototypeThen, PromiseReject } = internal.primordials;
  const { ops } = internal;

  internal.define("dns", () => {
    const { badValue, coded, needFunction, needString } = internal.node;
    const { isIP } = internal.use("netAddresses");
    const { nextTick } = internal.use("process");

    const ABSENT = [
      "lookupService", "resolveAny", "resolveCaa", "resolveCname", "resolveMx", "resolveNaptr", "resolveNs", "resolvePtr",
      "resolveSoa", "resolveSrv", "resolveTlsa", "resolveTxt", "reverse",
    ];
    const FAMILIES = { __proto__: null, A: 4, AAAA: 6 };
    // The codes of errors, by the stage at which a query failed.
    const CODES = { __proto__: null, limit: "ECANCELLED", policy: "EREFUSED", resolve: "ENOTFOUND" };

    function failure(code, syscall, hostname, why) {
      const error = coded(Error, code, `${syscall} ${code} ${hostname}: ${why}`);
      error.errno = undefined;
      error.syscall = syscall;
      error.hostname = hostname;
      return error;
    }

    // Returns a promise of the addresses of both families.
    async function allAddresses(syscall, hostname) {
      if (isIP(hostname) !== 0) return [hostname];
      let resolved;
      try {
        resolved = await ops.dnsResolve(hostname);
      } catch (error) {
        throw failure("ENOTFOUND", syscall, hostname, `${error}`);
      }
      if ("stage" in resolved) throw failure(CODES[resolved.stage] ?? "ESERVFAIL", syscall, hostname, resolved.message);
      return resolved;
    }

    // Returns a promise of the addresses of a family; 0 stands for both families.
    async function addresses(syscall, hostname, family) {
      const all = await allAddresses(syscall, hostname);
      const found = all.filter((address) => family === 0 || isIP(address) === family);
      if (found.length === 0) throw failure("ENOTFOUND", syscall, hostname, "it has no address of this family");
      return found;
    }

    function familyOf(options) {
      const given = typeof options === "number" ? options : options?.family ?? 0;
      const family = given === "IPv4" ? 4 : given === "IPv6" ? 6 : given;
      if (family !== 0 && family !== 4 && family !== 6) throw badValue("options.family", given);
      return family;
    }

    // Calls `done(error)` or `done(null, …results)` when the promise that `start` returns is
    // settled. Throws, without calling `start`, if `done` is not a function.
    const whenSettled = (done, start, results) => {
      needFunction(done, "callback");
      PromisePrototypeThen(start(), (found) => nextTick(done, null, ...results(found)), (error) => nextTick(done, error));
    };
    const entry = (address) => ({ address, family: isIP(address) });

    function lookup(hostname, options, callback = undefined) {
      const done = typeof options === "function" ? options : callback;
      const all = !!options?.all;
      whenSettled(done, () => addresses("getaddrinfo", needString(hostname, "hostname"), familyOf(options)),
        (found) => (all ? [found.map(entry)] : [found[0], isIP(found[0])]));
    }
    // With the option `ttl`, an address has a time to live, which is 0: the node caches the answer
    // and checks its addresses again for each query, so a Worker should not keep them.
    const records = (found, options) => (options?.ttl ? found.map((address) => ({ address, ttl: 0 })) : found);
    const resolver = (name, family) => (hostname, ...rest) =>
      whenSettled(rest[rest.length - 1], () => addresses(name, needString(hostname, "name"), family), (found) => [records(found, rest[0])]);
    const unsupported = (name, hostname) => PromiseReject(failure("ENOTIMP", name, hostname, "only addresses can be resolved"));
    const ofType = (hostname, type) =>
      (FAMILIES[type] === undefined ? unsupported("resolve", hostname) : addresses("resolve", needString(hostname, "name"), FAMILIES[type]));

    const callbacks = {
      lookup,
      resolve(hostname, ...rest) {
        whenSettled(rest[rest.length - 1], () => ofType(hostname, rest.length > 1 ? rest[0] : "A"), (found) => [found]);
      },
      resolve4: resolver("queryA", 4),
      resolve6: resolver("queryAaaa", 6),
    };
    const promised = {
      async lookup(hostname, options) {
        const found = /** @type {string[]} */ (await addresses("getaddrinfo", needString(hostname, "hostname"), familyOf(options)));
        return options?.all ? found.map(entry) : entry(found[0]);
      },
      resolve: async (hostname, type = "A") => await ofType(hostname, type),
      resolve4: async (hostname, options) => records(await addresses("queryA", needString(hostname, "name"), 4), options),
      resolve6: async (hostname, options) => records(await addresses("queryAaaa", needString(hostname, "name"), 6), options),
    };
    for (let i = 0; i < ABSENT.length; i++) {
      const name = ABSENT[i];
      callbacks[name] = (hostname, ...rest) => whenSettled(rest[rest.length - 1], () => unsupported(name, hostname), (found) => [found]);
      promised[name] = (hostname) => unsupported(name, hostname);
    }

    const settings = {
      getDefaultResultOrder: () => "verbatim",
      getServers: () => [],
      setDefaultResultOrder() {},
      setServers() {},
    };
    const constants = {
      ADDRCONFIG: 32, ALL: 16, CANCELLED: "ECANCELLED", NODATA: "ENODATA", NOTFOUND: "ENOTFOUND", NOTIMP: "ENOTIMP",
      REFUSED: "EREFUSED", SERVFAIL: "ESERVFAIL", V4MAPPED: 8,
    };
    return { ...callbacks, ...settings, ...constants, promises: { ...promised, ...settings, ...constants } };
  });
})
