// node:net: the module, and the recognition of IP addresses. Socket is in node-net-socket.js.
//: module
(function (internal) {
  "use strict";

  const { RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeSplit } = internal.primordials;

  internal.define("netAddresses", () => {
    const V4 = /^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!$)|$)){4}$/;
    const GROUP = /^[0-9A-Fa-f]{1,4}$/;
    const ZONE = /^%[0-9A-Za-z.:-]+$/;
    const GROUPS = 8;
    // The maximum length of an address with its zone, in code units.
    const LONGEST = 100;

    const textOf = (value) => {
      const text = typeof value === "string" ? value : `${value}`;
      return text.length > LONGEST ? "" : text;
    };

    const isIPv4 = (value) => RegExpPrototypeExec(V4, textOf(value)) !== null;

    // Returns the number of groups of 16 bits in a part of an address, or NaN if it is malformed.
    function groupsIn(part, isLast) {
      if (part === "") return 0;
      const groups = StringPrototypeSplit(part, ":");
      let count = 0;
      for (let i = 0; i < groups.length; i++) {
        if (RegExpPrototypeExec(GROUP, groups[i]) !== null) count += 1;
        else if (isLast && i === groups.length - 1 && isIPv4(groups[i])) count += 2;
        else return NaN;
      }
      return count;
    }

    function isIPv6(value) {
      let text = textOf(value);
      const zone = StringPrototypeIndexOf(text, "%");
      if (zone >= 0) {
        if (RegExpPrototypeExec(ZONE, StringPrototypeSlice(text, zone)) === null) return false;
        text = StringPrototypeSlice(text, 0, zone);
      }
      const gap = StringPrototypeIndexOf(text, "::");
      if (gap < 0) return groupsIn(text, true) === GROUPS;
      const before = groupsIn(StringPrototypeSlice(text, 0, gap), false);
      return before + groupsIn(StringPrototypeSlice(text, gap + 2), true) < GROUPS;
    }

    // Returns the version of an IP address, 4 or 6, or 0 for a text that is not an address.
    const isIP = (value) => (isIPv4(value) ? 4 : isIPv6(value) ? 6 : 0);
    return { __proto__: null, isIP, isIPv4, isIPv6 };
  });

  internal.define("net", () => {
    const { refused } = internal.node;
    const { Socket, normalized } = internal.use("netSocket");
    const { isIP, isIPv4, isIPv6 } = internal.use("netAddresses");

    function connect(...args) {
      const { options, callback } = normalized(args);
      const socket = new Socket(options);
      if (options.timeout) socket.setTimeout(options.timeout);
      return callback === undefined ? socket.connect(options) : socket.connect(options, callback);
    }

    const noServer = (what) => refused(what, "a Worker cannot listen; its handler receives the requests");
    function Server() {
      throw noServer("net.Server");
    }
    const noop = () => {};

    return {
      Server, Socket, Stream: Socket, connect, createConnection: connect, isIP, isIPv4, isIPv6,
      createServer() {
        throw noServer("net.createServer");
      },
      // A connection always tries the addresses of both families.
      getDefaultAutoSelectFamily: () => true,
      getDefaultAutoSelectFamilyAttemptTimeout: () => 250,
      setDefaultAutoSelectFamily: noop,
      setDefaultAutoSelectFamilyAttemptTimeout: noop,
    };
  });
})
