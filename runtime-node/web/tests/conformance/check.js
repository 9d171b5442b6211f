// Named checks. Every Worker of the suite consists of such checks, and one request runs them one
// after another. The response lists the checks with their failures, and the lines that each check
// should have logged.

const checks = [];
let subject = null;

/**
 * Sets the subject of the following checks, such as an interface. Each subject has a row in the
 * report.
 */
export const about = (name) => {
  subject = name;
};

/** Declares a check. The body may be async; the check fails if the body throws. */
export const check = (name, body) => checks.push({ name, body, about: subject });

const show = (value) => {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "object" && value !== null) {
    if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
    if (ArrayBuffer.isView(value)) return `${value.constructor.name}[${[...value].join(", ")}]`;
    return `{${Object.entries(value).map(([k, v]) => `${k}: ${show(v)}`).join(", ")}}`;
  }
  return Object.is(value, -0) ? "-0" : String(value);
};

/** Checks that `show` returns the same text for two values. `what` begins the error message. */
export function equal(actual, expected, what = "") {
  if (show(actual) !== show(expected)) {
    throw new Error(`${what === "" ? "" : `${what}: `}expected ${show(expected)}, got ${show(actual)}`);
  }
}

/**
 * Checks that `body` throws an error with this name and a message that contains `part`. Returns the
 * error.
 */
export function throws(name, body, part = "") {
  let returned;
  try {
    returned = body();
  } catch (error) {
    return thrown(error, name, part);
  }
  throw new Error(`expected ${name} from ${body}, got ${show(returned)}`);
}

/**
 * Checks that the promise is rejected with an error with this name and a message that contains
 * `part`. Resolves to the error. `what` begins the message if the promise is fulfilled.
 */
export async function rejects(name, promise, part = "", what = "") {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return thrown(error, name, part);
  }
  throw new Error(`${what === "" ? "" : `${what}: `}expected a rejection with ${name}, got ${show(value)}`);
}

function thrown(error, name, part) {
  if (error?.name !== name) throw new Error(`expected ${name}, got ${error?.name}: ${error?.message}\n${error?.stack}`);
  if (!error.message.includes(part)) throw new Error(`expected ${show(part)} in ${show(error.message)}`);
  return error;
}

// The lines that the running check expects in the log, each as `LEVEL text`.
let lines;

/**
 * Expects this line at this level from the running check, and runs `body`. The test harness
 * compares the lines with the log when all checks have run.
 */
export function logs(level, line, body) {
  lines.push(`${level} ${line}`);
  body();
}

/** Runs every check, and returns a response with the results. */
export async function results() {
  const out = [];
  for (const { name, body, about } of checks) {
    let failure = null;
    lines = [];
    try {
      await body();
    } catch (error) {
      failure = `${error?.name}: ${error?.message}\n${error?.stack}`;
    }
    out.push({ name, about, failure, lines });
  }
  return Response.json(out);
}

/** The handler that a file exports, unless it calls `results` in a handler of its own. */
export default { fetch: results };
