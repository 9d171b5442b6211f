export const load = ({ platform, url }) => ({
  name: url.searchParams.get("name") ?? "nobody",
  greeting: platform.env.GREETING,
  late: new Promise((resolve) => setTimeout(() => resolve("it came later"), 20)),
});

export const actions = {
  default: async ({ request }) => ({ signed: (await request.formData()).get("name") }),
};
