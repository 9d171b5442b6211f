export const load = () => ({
  now: "at once",
  later: new Promise((resolve) => setTimeout(resolve, 5, "it came later")),
  never: new Promise((_, reject) => setTimeout(reject, 5, new Error("on purpose"))),
});
