import { Await, Form, useActionData, useLoaderData } from "@remix-run/react";
import { defer } from "@remix-run/cloudflare";
import { Suspense } from "react";

export const loader = ({ context, request }) =>
  defer({
    greeting: context.env.GREETING,
    name: new URL(request.url).searchParams.get("name") ?? "nobody",
    late: new Promise((resolve) => setTimeout(() => resolve("it came later"), 20)),
  });

export const action = async ({ request }) => ({ signed: (await request.formData()).get("name") });

export default function Index() {
  const { greeting, name, late } = useLoaderData();
  return (
    <main>
      <h1>Hello, {useActionData()?.signed ?? name}</h1>
      <p>{greeting}</p>
      <Suspense fallback={<p>wait…</p>}>
        <Await resolve={late}>{(text) => <p>{text}</p>}</Await>
      </Suspense>
      <Form method="post">
        <input name="name" />
      </Form>
    </main>
  );
}
