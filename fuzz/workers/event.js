// Checks that the parts of a request's event agree with each other, and that a copy of the request
// equals the request.

import { attempt, attemptLater, same } from "./check.js";

export default {
  async fetch(request) {
    try {
      // A client can send a body with a method that allows none. A program cannot construct such a
      // request.
      const copy = attempt(() => new Request(request.clone())) ?? request.clone();
      // Routers parse URLs with another implementation, which accepts some internationalized hosts
      // that this one rejects.
      const url = attempt(() => new URL(request.url));
      if (url !== undefined) same(url.href, request.url, "url");
      same(copy.method, request.method, "method");
      same(JSON.stringify([...copy.headers]), JSON.stringify([...request.headers]), "headers");
      for (const [name, value] of request.headers) {
        if (name !== "set-cookie") same(request.headers.get(name), value, name);
      }
      const type = request.headers.get("content-type") ?? "";
      const form = await attemptLater(() => copy.formData());
      if (form !== undefined) same(/form/i.test(type), true, "a form has a form's content type");
      const bytes = await request.bytes();
      attempt(() => structuredClone(bytes.buffer));
      return new Response(bytes, { headers: [...request.headers].filter(([name]) => /^x-[a-z]+$/.test(name)) });
    } catch (error) {
      return new Response(`${error?.stack ?? error}`, { status: 500 });
    }
  },
};
