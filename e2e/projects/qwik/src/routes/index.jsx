import { component$, useSignal } from "@builder.io/qwik";
import { routeLoader$ } from "@builder.io/qwik-city";

export const useVisitor = routeLoader$(({ env, query }) => ({ greeting: env.get("GREETING"), name: query.get("name") ?? "nobody" }));

export default component$(() => {
  const visitor = useVisitor();
  const clicks = useSignal(0);
  return (
    <main>
      <h1>Hello, {visitor.value.name}</h1>
      <p>{visitor.value.greeting}</p>
      <button onClick$={() => clicks.value++}>{clicks.value} clicks</button>
    </main>
  );
});
