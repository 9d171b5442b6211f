import { solidStart } from "@solidjs/start/config";
import { nitroV2Plugin } from "@solidjs/vite-plugin-nitro-2";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    solidStart(),
    nitroV2Plugin({
      preset: "cloudflare_module",
      noExternals: true,
      compatibilityDate: "2026-10-01",
      cloudflare: { deployConfig: true, nodeCompat: true, wrangler: { name: "solidstart", vars: { GREETING: "Hello from env" } } },
    }),
  ],
});
