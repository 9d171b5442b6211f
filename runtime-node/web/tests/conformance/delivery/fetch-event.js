// Checks of FetchEvent, in a Worker with the syntax of Service Workers.
import { about, check, equal, results, throws } from "../check.js";

let delivered;
addEventListener("fetch", (event) => {
  delivered = event;
  event.respondWith(results());
  throws("InvalidStateError", () => event.respondWith(new Response()));
});
addEventListener("fetch", () => {
  throw new Error("the first listener has answered");
});

about("FetchEvent");

check("a request is delivered as an event", () => {
  equal([delivered.type, delivered instanceof FetchEvent, delivered.request.method], ["fetch", true, "POST"]);
});

check("respondWith throws after the event has been delivered", () => {
  throws("InvalidStateError", () => delivered.respondWith(new Response()));
});

check("a promise can keep the invocation alive", () => {
  delivered.waitUntil(new Promise((resolve) => setTimeout(resolve, 1)));
});

check("waitUntil throws for an event that the Worker has created", () => {
  const event = new FetchEvent("fetch", { request: new Request("https://h") });
  throws("InvalidStateError", () => event.waitUntil(Promise.resolve()));
  throws("TypeError", () => new FetchEvent("fetch", {}));
});

check("passThroughOnException exists and has no effect", () => {
  const event = new FetchEvent("fetch", { request: new Request("https://a.test/") });
  equal(event.passThroughOnException(), undefined);
  throws("TypeError", () => FetchEvent.prototype.passThroughOnException.call(new Event("x")));
});
