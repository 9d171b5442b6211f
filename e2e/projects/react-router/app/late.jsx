import { Suspense } from "react";
import { Await } from "react-router";

export const loader = () => ({ late: new Promise((resolve) => setTimeout(() => resolve("it came later"), 20)) });

export default ({ loaderData }) => (
  <Suspense fallback={<p>wait…</p>}>
    <Await resolve={loaderData.late}>{(text) => <p>{text}</p>}</Await>
  </Suspense>
);
