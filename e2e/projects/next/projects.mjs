// A Next.js project, built for Cloudflare by OpenNext.

export default [
  {
    name: "next",
    title: "Next.js by OpenNext",
    package: "next",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: [/Hello, (<!-- -->)?Ada/, "Hello from env", "it came later"], streamed: true, follow: /src="(\/_next\/static\/[^"]+\.js)"/ },
      { path: "/about", has: "Made at build time" },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404, has: "This page could not be found" },
    ],
  },
];
