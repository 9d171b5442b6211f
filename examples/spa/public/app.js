const get = async (path) => (await fetch(path)).json();

/** Shows the note that the path names, because the server answers every path with this page. */
async function show() {
  const name = location.pathname.slice(1);
  const { note, error } = name ? await get(`/api/notes/${encodeURIComponent(name)}`) : {};
  document.querySelector("p").textContent = note ?? error ?? "Choose a note.";
}

for (const name of await get("/api/notes")) {
  const link = document.createElement("a");
  Object.assign(link, { href: `/${name}`, textContent: name });
  link.onclick = (event) => {
    event.preventDefault();
    history.pushState(null, "", link.href);
    show();
  };
  document.querySelector("nav").append(link, " ");
}
addEventListener("popstate", show);
await show();
