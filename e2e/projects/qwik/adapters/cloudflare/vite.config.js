import { cloudflarePagesAdapter } from "@builder.io/qwik-city/adapters/cloudflare-pages/vite";
import { extendConfig } from "@builder.io/qwik-city/vite";
import base from "../../vite.config.js";

export default extendConfig(base, () => ({
  build: { ssr: true, rollupOptions: { input: ["src/entry.cloudflare.jsx", "@qwik-city-plan"] } },
  plugins: [cloudflarePagesAdapter()],
}));
