import { useState } from "react";
import { createCookie, data } from "react-router";

import { cloudflare } from "../context.js";

const visits = createCookie("visits", { secrets: ["a secret"], httpOnly: true });

export async function loader({ request, context }) {
  const count = ((await visits.parse(request.headers.get("cookie"))) ?? 0) + 1;
  const { GREETING } = context.get(cloudflare).env;
  return data({ greeting: GREETING, count }, { headers: { "set-cookie": await visits.serialize(count) } });
}

export const meta = ({ loaderData }) => [{ title: loaderData.greeting }];

export const headers = ({ loaderHeaders }) => loaderHeaders;

export default function Home({ loaderData: { greeting, count } }) {
  const [clicks, setClicks] = useState(0);
  return (
    <>
      <h1>{`${greeting}, visit ${count}`}</h1>
      <button onClick={() => setClicks(clicks + 1)}>{`${clicks} clicks`}</button>
    </>
  );
}
