import { index, route } from "@react-router/dev/routes";

export default [
  index("routes/home.jsx"),
  route("posts/:id", "routes/post.jsx"),
  route("guestbook", "routes/guestbook.jsx"),
  route("api/*", "routes/api.js"),
  route("late", "routes/late.jsx"),
  route("old", "routes/old.js"),
  route("broken", "routes/broken.jsx"),
];
