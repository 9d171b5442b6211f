// A React Router project with Cloudflare's plugin for Vite. The build of the project generates the
// configuration of wrangler.

export default [
  {
    name: "react-router",
    title: "React Router",
    package: "react-router",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: [/Hello, (<!-- -->)?Ada/, "Hello from env"], follow: /(\/assets\/[^"]+\.js)"/ },
      {
        method: "POST",
        path: "/?index",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        send: "name=Bob",
        has: /Hello, (<!-- -->)?Bob/,
      },
      { path: "/late", has: ["wait…", "it came later"], streamed: true },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404, has: /There is no such page: (<!-- -->)?404/ },
    ],
  },
];
