import { createClient } from "@supabase/supabase-js";

export default {
  async fetch(request, env) {
    const supabase = createClient(env.ORIGIN, "public-key", { auth: { persistSession: false } });
    const { pathname } = new URL(request.url);
    if (pathname === "/rows") {
      const { data, count, error } = await supabase.from("cities").select("name", { count: "exact" }).eq("country", "Chile").limit(2);
      return Response.json({ data, count, error });
    }
    if (pathname === "/sign-in") {
      const { data, error } = await supabase.auth.signInWithPassword({ email: "ada@example.com", password: "secret" });
      return Response.json({ user: data.user?.email, error: error?.message });
    }
    const { error } = await supabase.from("missing").select();
    return Response.json({ code: error.code, message: error.message }, { status: 404 });
  },
};
