import { sequence } from "@sveltejs/kit/hooks";

export const handle = sequence(
  ({ event, resolve }) => {
    event.locals.visits = Number(event.cookies.get("visits") ?? 0) + 1;
    event.cookies.set("visits", event.locals.visits, { path: "/", secure: false });
    return resolve(event);
  },
  async ({ event, resolve }) => {
    const response = await resolve(event);
    response.headers.set("x-route", event.route.id ?? "none");
    return response;
  },
);

export const handleError = ({ error, status }) => ({ message: status === 404 ? "nothing here" : `caught: ${error.message}` });
