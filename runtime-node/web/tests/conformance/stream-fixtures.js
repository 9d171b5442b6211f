// Values and functions that the checks of several stream interfaces use.

export const error1 = Object.assign(new Error("one"), { name: "one" });
export const error2 = Object.assign(new Error("two"), { name: "two" });

/** Returns a function that throws an error with this name. */
export const failing = (name = "thrown") => () => {
  throw Object.assign(new Error(name), { name });
};

/** Returns a promise that settles in a later turn, at the earliest after `ms` milliseconds. */
export const later = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns whether a promise is still pending in a later turn. */
export const pending = async (promise) => {
  const mark = {};
  return (await Promise.race([promise, later().then(() => mark)])) === mark;
};

export const bytes = (...values) => new Uint8Array(values);

/** Returns a stream of these chunks, which are in its queue from the start. */
export const of = (...chunks) =>
  new ReadableStream({
    start(c) {
      for (const chunk of chunks) c.enqueue(chunk);
      c.close();
    },
  });

/** Reads a stream to its end, and returns its chunks. */
export const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};

/**
 * Returns a sink that forwards the calls of its methods to `methods`. It records them in `events`,
 * except the call of `start`, whose argument it keeps as `controller`.
 */
export const recorder = (methods = {}) => {
  const events = [];
  const sink = { events };
  for (const key of ["start", "write", "close", "abort"]) {
    sink[key] = (...args) => {
      if (key !== "start") events.push(key === "close" ? "close" : [key, args[0]]);
      else sink.controller = args[0];
      return methods[key]?.(...args);
    };
  }
  return sink;
};
