import { fail, redirect } from "@sveltejs/kit";

export const actions = {
  async sign({ request, cookies }) {
    const form = await request.formData();
    const name = form.get("name");
    if (!name) return fail(400, { problem: "a name, please" });
    const picture = form.get("picture");
    cookies.set("name", name, { path: "/guestbook", secure: true });
    if (picture) return { signed: `${name}, with ${await picture.text()} of ${picture.type}` };
    redirect(303, "/guestbook");
  },
};

export const load = ({ cookies }) => ({ name: cookies.get("name") ?? "nobody" });
