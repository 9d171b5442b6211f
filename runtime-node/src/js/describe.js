// What `console` shows of the platform's own objects, whose state is private.
(function (internal) {
  "use strict";

  const { ReflectApply, ReflectGetOwnPropertyDescriptor } = internal.primordials;
  const { describers, headers } = internal;

  // The getters of these attributes as they were made, whatever has become of the prototype.
  function attributes(constructor, names) {
    const getters = [];
    for (let i = 0; i < names.length; i++) {
      getters[i] = ReflectGetOwnPropertyDescriptor(constructor.prototype, names[i]).get;
    }
    return (value) => {
      const flat = [];
      for (let i = 0; i < names.length; i++) {
        flat[flat.length] = names[i];
        flat[flat.length] = ReflectApply(getters[i], value, []);
      }
      return flat;
    };
  }

  function describe(title, is, entries) {
    describers[describers.length] = (value) => (is(value) ? { title, entries: entries(value) } : null);
  }

  const { AbortSignal, Event, Request, Response, URL } = globalThis;
  describe("Headers", headers.isHeaders, headers.sorted);
  describe("URLSearchParams", internal.isURLSearchParams, internal.searchParamsList);
  describe("URL", internal.isURL, attributes(URL, [
    "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search",
    "searchParams", "hash",
  ]));
  describe("Request", internal.isRequest, attributes(Request, ["method", "url", "headers", "bodyUsed"]));
  describe("Response", internal.isResponse, attributes(Response, [
    "status", "statusText", "headers", "ok", "redirected", "type", "url", "bodyUsed",
  ]));
  describe("AbortSignal", internal.isAbortSignal, attributes(AbortSignal, ["aborted", "reason"]));
  describe("Event", internal.isEvent, attributes(Event, ["type", "cancelable", "defaultPrevented", "target"]));
})
