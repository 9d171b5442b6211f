// Checks of ScheduledEvent, which a Worker can construct, and ScheduledController, which it cannot,
// in a Worker with the syntax of Service Workers.
import { about, check, equal, results, throws } from "../check.js";

addEventListener("fetch", (event) => event.respondWith(results()));

about("ScheduledEvent");

check("an event has the type and members that it was created with", () => {
  const event = new ScheduledEvent("scheduled", { cron: "*/5 * * * *", scheduledTime: 1000 });
  equal([event.type, event.cron, event.scheduledTime], ["scheduled", "*/5 * * * *", 1000]);
  equal([event instanceof Event, event instanceof ExtendableEvent, String(event)], [true, true, "[object ScheduledEvent]"]);
});

check("omitted members have empty values", () => {
  const event = new ScheduledEvent("scheduled", {});
  equal([event.cron, event.scheduledTime], ["", NaN]);
});

check("the constructor takes two arguments, of which the second is a dictionary", () => {
  throws("TypeError", () => new ScheduledEvent());
  throws("TypeError", () => new ScheduledEvent("scheduled"));
  throws("TypeError", () => new ScheduledEvent("scheduled", 1));
  throws("TypeError", () => ScheduledEvent("scheduled", {}));
});

check("waitUntil throws for an event that the Worker has created", () => {
  const event = new ScheduledEvent("scheduled", {});
  throws("InvalidStateError", () => event.waitUntil(Promise.resolve()));
  event.noRetry();
});

check("listeners get an event that the Worker dispatches itself", () => {
  let cron;
  addEventListener("scheduled", (event) => (cron = event.cron));
  dispatchEvent(new ScheduledEvent("scheduled", { cron: "0 0 * * *" }));
  equal(cron, "0 0 * * *");
});

check("a controller cannot be constructed, and its members reject other receivers", () => {
  throws("TypeError", () => new ScheduledController());
  throws("TypeError", () => new ScheduledController({}, "* * * * *", 0));
  throws("TypeError", () => ScheduledController.prototype.cron);
  throws("TypeError", () => ScheduledController.prototype.noRetry());
});
