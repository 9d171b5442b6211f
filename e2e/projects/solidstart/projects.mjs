// A SolidStart project with Nitro's preset `cloudflare_module`. The project's build generates
// wrangler's configuration.

export default [
  {
    name: "solidstart",
    title: "SolidStart",
    package: "@solidjs/start",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: [/Hello, (<!--[^>]*-->)?Ada/, "Hello from env", "it came later"], streamed: true },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404, has: "There is no such page" },
    ],
  },
];
