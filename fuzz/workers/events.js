// Checks that EventSource reads a stream of events as the standard requires.

import { checker, same } from "./check.js";

// Parses a complete stream as section 9.2.6 of HTML describes.
function read(text) {
  const events = [];
  let [data, type, id] = ["", "", ""];
  // An unfinished line is ignored, and so is an event without a blank line after it.
  for (const line of text.split(/\r\n|\r|\n/).slice(0, -1)) {
    if (line === "") {
      if (data !== "") events.push([type || "message", data.slice(0, -1), id]);
      data = type = "";
      continue;
    }
    const [, name, value = ""] = /^([^:]*)(?:: ?([^]*))?$/.exec(line);
    if (name === "data") data += `${value}\n`;
    else if (name === "event") type = value;
    else if (name === "id" && !value.includes("\0")) id = value;
  }
  return events;
}

const receive = (url, types) => new Promise((resolve) => {
  const events = [];
  const source = new EventSource(url);
  for (const name of types) {
    source.addEventListener(name, ({ type, data, lastEventId }) => events.push([type, data, lastEventId]));
  }
  source.onerror = () => {
    source.close();
    resolve(events);
  };
});

export default checker(async (reader) => {
  const bytes = reader.rest.subarray(0, 4096);
  // The EventSource itself also fires events of these two types.
  const expected = read(new TextDecoder().decode(bytes)).filter(([type]) => type !== "open" && type !== "error");
  const types = new Set(["message", ...expected.map(([type]) => type)]);
  const url = `data:text/event-stream;base64,${btoa(String.fromCharCode(...bytes))}`;
  same(JSON.stringify(await receive(url, types)), JSON.stringify(expected), "events");
});
