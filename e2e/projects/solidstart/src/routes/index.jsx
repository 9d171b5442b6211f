import { createAsync, query, useSearchParams } from "@solidjs/router";
import { createSignal, Suspense } from "solid-js";
import { getRequestEvent } from "solid-js/web";

const greeting = query(async () => {
  "use server";
  return getRequestEvent().nativeEvent.req.runtime.cloudflare.env.GREETING;
}, "greeting");

const late = query(async () => {
  "use server";
  await new Promise((resolve) => setTimeout(resolve, 20));
  return "it came later";
}, "late");

export default function Home() {
  const [search] = useSearchParams();
  const [clicks, setClicks] = createSignal(0);
  const text = createAsync(() => greeting());
  const later = createAsync(() => late());
  return (
    <main>
      <h1>Hello, {search.name ?? "nobody"}</h1>
      <p>{text()}</p>
      <Suspense fallback={<p>wait…</p>}>
        <p>{later()}</p>
      </Suspense>
      <button onClick={() => setClicks(clicks() + 1)}>{clicks()} clicks</button>
    </main>
  );
}
