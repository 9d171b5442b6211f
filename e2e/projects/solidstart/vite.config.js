import { solidStart } from "@solidjs/start/config";
import { nitro } from "nitro/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [solidStart(), nitro()],
  nitro: {
    preset: "cloudflare_module",
    compatibilityDate: "2026-10-01",
    cloudflare: { deployConfig: true, nodeCompat: true, wrangler: { name: "solidstart", vars: { GREETING: "Hello from env" } } },
  },
});
