// Sends the requests of a project to its Worker, and checks the answers.
//
// A request is an object with these keys, of which only `path` is required:
//
// | key | meaning |
// | --- | --- |
// | `method`, `path`, `headers` | the parts of the request; the default method is `GET` |
// | `send` | the body: a text, or an object that is sent as JSON |
// | `status` | the expected status, by default 200 |
// | `type` | a text that the header `content-type` contains |
// | `has` | a text or a pattern that the body contains, or a list of them |
// | `json` | the value of the body, which is JSON |
// | `starts` | the first bytes of the body, in hexadecimal |
// | `streamed` | the answer has no `content-length`: the Worker began it before its end was known |
// | `expect` | texts that headers contain, by the name of the header |
// | `follow` | a pattern whose first group in the body is a path; the file there is requested too |

import assert from "node:assert/strict";
import { once } from "node:events";
import { request as send } from "node:http";

// Time limit of a request, in milliseconds. It is much longer than any answer takes.
const DEADLINE = 120_000;

/**
 * Sends a request to a Worker, and throws an AssertionError unless the answer is as expected.
 *
 * @param address `host` that the Worker serves, and the `port` on this machine
 * @param wanted the request, as the table above describes it
 */
export async function ask(address, wanted) {
  const { status, headers, body } = await exchange(address, wanted);
  const text = body.toString("utf8");
  const about = `${wanted.method ?? "GET"} ${wanted.path}`;
  const shown = `${about} answers ${status}: ${text.slice(0, 400)}`;
  assert.equal(status, wanted.status ?? 200, shown);
  if (wanted.type) assert.ok(headers["content-type"]?.includes(wanted.type), `${about}: content-type ${headers["content-type"]}`);
  for (const part of [wanted.has ?? []].flat()) {
    assert.ok(part instanceof RegExp ? part.test(text) : text.includes(part), `${shown}, without ${part}`);
  }
  if ("json" in wanted) assert.deepEqual(JSON.parse(text), wanted.json, shown);
  if (wanted.starts) assert.ok(body.toString("hex").startsWith(wanted.starts), `${about}: begins with ${body.subarray(0, 8).toString("hex")}`);
  if (wanted.streamed) assert.equal(headers["content-length"], undefined, `${about} is not streamed`);
  for (const [name, part] of Object.entries(wanted.expect ?? {})) {
    assert.ok(String(headers[name]).includes(part), `${about}: ${name} is ${headers[name]}`);
  }
  if (wanted.follow) {
    const path = wanted.follow.exec(text)?.[1];
    assert.ok(path, `${shown}, without ${wanted.follow}`);
    const file = await exchange(address, { path: new URL(path, "http://localhost/").pathname });
    assert.equal(file.status, 200, `${path} of ${about} answers ${file.status}`);
    assert.ok(file.body.length > 0, `${path} of ${about} is empty`);
  }
}

// Sends a request, and returns the status, the headers and the body of the response.
async function exchange({ host, port }, { method = "GET", path, headers = {}, send: content }) {
  const body = content === undefined || typeof content === "string" ? content : JSON.stringify(content);
  const type = body !== undefined && body !== content ? { "content-type": "application/json" } : {};
  const options = { host: "127.0.0.1", port, method, path, agent: false, signal: AbortSignal.timeout(DEADLINE) };
  // Browsers send the origin with every request that is not a GET.
  const origin = method === "GET" ? {} : { origin: `http://${host}` };
  const request = send({ ...options, headers: { host, ...origin, ...type, ...headers } });
  request.end(body);
  const [response] = await once(request, "response");
  const pieces = await response.toArray();
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(pieces) };
}
