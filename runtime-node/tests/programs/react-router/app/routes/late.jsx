import { Suspense } from "react";
import { Await } from "react-router";

const after = (promise) => new Promise((resolve) => setTimeout(resolve, 5)).then(() => promise);

export const loader = () => ({
  now: "at once",
  later: after("it came later"),
  never: after(Promise.reject(new Error("on purpose"))),
});

export default function Late({ loaderData: { now, later, never } }) {
  return (
    <>
      <p>{now}</p>
      <Suspense fallback={<p>wait…</p>}>
        <Await resolve={later}>{(text) => <p>{text}</p>}</Await>
      </Suspense>
      <Suspense fallback={<p>wait…</p>}>
        <Await resolve={never} errorElement={<p>it never came</p>}>
          {() => null}
        </Await>
      </Suspense>
    </>
  );
}
