// A SvelteKit project with its Cloudflare adapter.

const form = { "content-type": "application/x-www-form-urlencoded", accept: "text/html" };

export default [
  {
    name: "sveltekit",
    title: "SvelteKit",
    package: "@sveltejs/kit",
    requests: [
      { path: "/?name=Ada", type: "text/html", has: ["Hello, Ada", "Hello from env", "it came later"], streamed: true, follow: /import\("([^"]+)"\)/ },
      { method: "POST", path: "/", headers: form, send: "name=Bob", has: "Hello, Bob" },
      { path: "/api/7", type: "application/json", json: { id: "7" } },
      { method: "POST", path: "/api/7", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } },
      { path: "/robots.txt", type: "text/plain", has: "User-agent: *" },
      { path: "/missing", status: 404, has: "Not Found" },
    ],
  },
];
