// Service Workers syntax.
import { check, equal, results, throws } from "./check.js";

let delivered;
addEventListener("fetch", (event) => {
  delivered = event;
  event.respondWith(results());
  throws("InvalidStateError", () => event.respondWith(new Response()));
});
addEventListener("fetch", () => {
  throw new Error("the first listener has answered");
});

check("a request is delivered as an event", () => {
  equal([delivered.type, delivered instanceof FetchEvent, delivered.request.method], ["fetch", true, "POST"]);
});

check("an answer comes while the event is delivered", () => {
  throws("InvalidStateError", () => delivered.respondWith(new Response()));
});

check("a promise can keep the invocation alive", () => {
  delivered.waitUntil(new Promise((resolve) => setTimeout(resolve, 1)));
});

check("an event of one's own cannot be waited for", () => {
  const event = new FetchEvent("fetch", { request: new Request("https://h") });
  throws("InvalidStateError", () => event.waitUntil(Promise.resolve()));
  throws("TypeError", () => new FetchEvent("fetch", {}));
});
