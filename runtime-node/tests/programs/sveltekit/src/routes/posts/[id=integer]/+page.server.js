import { error } from "@sveltejs/kit";

const posts = [
  { title: "First & foremost", tags: new Set(["a", "b"]) },
  { title: "Second", tags: new Set() },
];

export function load({ params, url, setHeaders }) {
  const post = posts[params.id] ?? error(404, "there is no such post");
  setHeaders({ "cache-control": "max-age=60" });
  return { ...post, shown: url.searchParams.get("shown") ?? "plainly" };
}
