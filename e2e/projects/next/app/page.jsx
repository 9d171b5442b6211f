import { Suspense } from "react";

async function Late() {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return <p>it came later</p>;
}

export default async function Page({ searchParams }) {
  const { name } = await searchParams;
  return (
    <main>
      <h1>Hello, {name ?? "nobody"}</h1>
      <p>{process.env.GREETING}</p>
      <Suspense fallback={<p>wait…</p>}>
        <Late />
      </Suspense>
    </main>
  );
}
