// A React single-page application with a Hono API, built by Cloudflare's plugin for Vite.

export default [
  {
    name: "vite-react",
    title: "Vite with React and Hono",
    package: "vite",
    requests: [
      { path: "/", type: "text/html", has: '<div id="root">', follow: /src="(\/assets\/[^"]+\.js)"/ },
      { path: "/any/page", type: "text/html", has: '<div id="root">' },
      { path: "/api/greeting", type: "application/json", json: { greeting: "Hello from env" } },
      { method: "POST", path: "/api/items", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/api/stream", has: ["line 0", "line 2"], streamed: true },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/api/missing", status: 404 },
    ],
  },
];
