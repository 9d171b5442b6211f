import { Form } from "react-router";
import { environment } from "../workers/app.js";

export const meta = () => [{ title: "React Router" }];

export const loader = ({ context, request }) => ({
  greeting: context.get(environment).GREETING,
  name: new URL(request.url).searchParams.get("name") ?? "nobody",
});

export const action = async ({ request }) => ({ signed: (await request.formData()).get("name") });

export default function Home({ loaderData, actionData }) {
  return (
    <>
      <h1>Hello, {actionData?.signed ?? loaderData.name}</h1>
      <p>{loaderData.greeting}</p>
      <Form method="post">
        <input name="name" />
      </Form>
    </>
  );
}
