// A Nuxt project with Nitro's preset `cloudflare_module`, whose build generates the configuration.

export default [
  {
    name: "nuxt",
    title: "Nuxt",
    package: "nuxt",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: ["Hello, Ada", "0 clicks"], follow: /src="(\/_nuxt\/[^"]+\.js)"/ },
      { path: "/", has: "Hello, Nuxt" },
      { path: "/api/env", type: "application/json", json: { greeting: "Hello from env" } },
      { method: "POST", path: "/api/items", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/stream", has: ["line 0", "line 2"], streamed: true },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
    ],
  },
];
