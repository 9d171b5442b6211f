import { Form, createCookieSessionStorage, data, redirect } from "react-router";

const { commitSession, getSession } = createCookieSessionStorage({ cookie: { name: "session", secrets: ["a secret"] } });

export async function action({ request }) {
  const form = await request.formData();
  const name = form.get("name");
  if (!name) return data({ problem: "a name, please" }, { status: 400 });
  const picture = form.get("picture");
  if (picture) return { signed: `${name}, with ${await picture.text()} of ${picture.type}` };
  const session = await getSession(request.headers.get("cookie"));
  session.set("name", name);
  return redirect("/guestbook", { headers: { "set-cookie": await commitSession(session) } });
}

export async function loader({ request }) {
  const session = await getSession(request.headers.get("cookie"));
  return { name: session.get("name") ?? "nobody" };
}

export default function Guestbook({ loaderData, actionData }) {
  return (
    <>
      <p>{actionData?.problem ?? actionData?.signed ?? `Signed by ${loaderData.name}`}</p>
      <Form method="post">
        <input name="name" />
      </Form>
    </>
  );
}
