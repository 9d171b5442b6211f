// A Qwik City project with its Cloudflare adapter, in a Worker with static files.

export default [
  {
    name: "qwik",
    title: "Qwik City",
    package: "@builder.io/qwik-city",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: [/Hello, (<!--[^>]*-->)?Ada/, "Hello from env"], streamed: true },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404 },
    ],
  },
];
