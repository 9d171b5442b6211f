// Checks of EventSource (HTML §9.2) as far as it needs no origin;
// `runtime-node/tests/fetch/events.rs` has the rest.

import { about, check, equal, throws } from "../check.js";

export { default } from "../check.js";

about("EventSource");

check("EventSource is an EventTarget with its constants on itself and on its instances", () => {
  const source = new EventSource("https://a.test/");
  equal([EventSource.CONNECTING, EventSource.OPEN, EventSource.CLOSED], [0, 1, 2]);
  equal([source.CONNECTING, source.OPEN, source.CLOSED], [0, 1, 2]);
  equal([source instanceof EventTarget, String(source)], [true, "[object EventSource]"]);
  source.close();
});

check("the URL is parsed, and an invalid URL is a SyntaxError", () => {
  const source = new EventSource("HTTPS://A.test/%7e/../x");
  equal(source.url, "https://a.test/x");
  source.close();
  throws("SyntaxError", () => new EventSource("/relative"));
  throws("TypeError", () => new EventSource());
  throws("TypeError", () => EventSource("https://a.test/"));
});

check("withCredentials has the value that the constructor was given", () => {
  const sources = [new EventSource("https://a.test/"), new EventSource("https://a.test/", { withCredentials: true })];
  equal(sources.map((source) => source.withCredentials), [false, true]);
  for (const source of sources) source.close();
});

check("a source begins in the state CONNECTING, and close fires no event", async () => {
  const source = new EventSource("http://127.0.0.1/");
  let events = 0;
  source.onerror = source.onopen = () => events++;
  equal(source.readyState, 0);
  source.close();
  equal(source.readyState, 2);
  await scheduler.wait(10);
  equal(events, 0);
});

check("a URL that cannot be fetched closes the source with an error event", async () => {
  const source = new EventSource("http://127.0.0.1/");
  const event = await new Promise((resolve) => (source.onerror = resolve));
  equal([event.type, event.target === source, event.isTrusted, source.readyState], ["error", true, true, 2]);
});

check("handlers are functions or null", () => {
  const source = new EventSource("https://a.test/");
  source.onmessage = 1;
  equal(source.onmessage, null);
  const handler = () => {};
  source.onmessage = handler;
  equal(source.onmessage === handler, true);
  source.close();
});
