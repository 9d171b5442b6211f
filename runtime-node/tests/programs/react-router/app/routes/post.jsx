const posts = [
  { title: "First & foremost", tags: new Set(["a", "b"]), at: new Date(0) },
  { title: "Second", tags: new Set(), at: new Date(1) },
];

export function loader({ params, request }) {
  const post = posts[params.id];
  if (post === undefined) throw new Response("there is no such post", { status: 404 });
  return { ...post, shown: new URL(request.url).searchParams.get("shown") ?? "plainly" };
}

export default function Post({ loaderData: { title, tags, shown } }) {
  return (
    <>
      <h1>{title}</h1>
      <p>{`Shown ${shown}, with ${tags.size} tags`}</p>
    </>
  );
}
