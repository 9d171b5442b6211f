// An Astro project with its Cloudflare adapter, whose build generates the configuration.

export default [
  {
    name: "astro",
    title: "Astro",
    package: "astro",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: ["<h1>Hello, Ada</h1>", "Hello from env"] },
      { path: "/about/", has: "Made at build time" },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/stream", has: ["line 0", "line 2"], streamed: true },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404 },
    ],
  },
];
