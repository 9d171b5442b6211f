// The event of a schedule, as a script can make one itself.
import { about, check, equal, results, throws } from "../check.js";

addEventListener("fetch", (event) => event.respondWith(results()));

about("ScheduledEvent");

check("it is an event of its type that tells what it was given", () => {
  const event = new ScheduledEvent("scheduled", { cron: "*/5 * * * *", scheduledTime: 1000 });
  equal([event.type, event.cron, event.scheduledTime], ["scheduled", "*/5 * * * *", 1000]);
  equal([event instanceof Event, event instanceof ExtendableEvent, String(event)], [true, true, "[object ScheduledEvent]"]);
});

check("what it was not given is empty", () => {
  const event = new ScheduledEvent("scheduled", {});
  equal([event.cron, event.scheduledTime], ["", NaN]);
});

check("it takes two arguments, of which the second is a dictionary", () => {
  throws("TypeError", () => new ScheduledEvent());
  throws("TypeError", () => new ScheduledEvent("scheduled"));
  throws("TypeError", () => new ScheduledEvent("scheduled", 1));
  throws("TypeError", () => ScheduledEvent("scheduled", {}));
});

check("one of one's own cannot be waited for", () => {
  const event = new ScheduledEvent("scheduled", {});
  throws("InvalidStateError", () => event.waitUntil(Promise.resolve()));
  event.noRetry();
});

check("a listener gets one that is dispatched by hand, and nothing is called for", () => {
  let told;
  addEventListener("scheduled", (event) => (told = event.cron));
  dispatchEvent(new ScheduledEvent("scheduled", { cron: "0 0 * * *" }));
  equal(told, "0 0 * * *");
});

check("a controller comes from the platform alone", () => {
  throws("TypeError", () => new ScheduledController());
  throws("TypeError", () => new ScheduledController({}, "* * * * *", 0));
  throws("TypeError", () => ScheduledController.prototype.cron);
  throws("TypeError", () => ScheduledController.prototype.noRetry());
});
