export default defineEventHandler(() => ({ name: "Nuxt" }));
