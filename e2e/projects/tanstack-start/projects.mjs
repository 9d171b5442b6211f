// A TanStack Start project with Cloudflare's plugin for Vite. The project's build generates
// wrangler's configuration.

export default [
  {
    name: "tanstack-start",
    title: "TanStack Start",
    package: "@tanstack/react-start",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: [/Hello, (<!-- -->)?Ada/, "Hello from env", "it came later"], streamed: true, follow: /(\/assets\/[^"]+\.js)"/ },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404, has: "There is no such page" },
    ],
  },
];
