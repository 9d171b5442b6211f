export default defineEventHandler(async (event) => {
  setResponseStatus(event, 201);
  return { received: await readBody(event) };
});
