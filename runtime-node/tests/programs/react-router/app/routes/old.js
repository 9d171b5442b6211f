import { redirect } from "react-router";

export const loader = () => redirect("/posts/0", 301);
