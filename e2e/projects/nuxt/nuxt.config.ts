export default defineNuxtConfig({
  compatibilityDate: "2026-10-01",
  telemetry: false,
  nitro: {
    preset: "cloudflare_module",
    cloudflare: { deployConfig: true, nodeCompat: true, wrangler: { name: "nuxt", vars: { GREETING: "Hello from env" } } },
  },
});
