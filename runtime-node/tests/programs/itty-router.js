import { AutoRouter, cors, error, json, withParams } from "itty-router";

const { preflight, corsify } = cors();
const router = AutoRouter({ before: [preflight, withParams], finally: [corsify] });

router
  .get("/todos/:id", ({ id, query }) => ({ id, query }))
  .post("/todos", async (request) => json({ got: await request.json() }, { status: 201 }))
  .get("/broken", () => {
    throw new Error("on purpose");
  })
  .get("/refused", () => error(403, "not you"));

export default { ...router };
