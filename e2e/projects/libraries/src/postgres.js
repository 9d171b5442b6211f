import postgres from "postgres";

export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    const sql = postgres(env.POSTGRES, { max: 2, fetch_types: false });
    try {
      if (pathname === "/rows") return Response.json(await sql`select n from generate_series(1, ${3}::int) n`);
      if (pathname === "/cursor") {
        const pages = [];
        await sql`select n from generate_series(1, 5) n`.cursor(2, (rows) => void pages.push(rows.length));
        return Response.json(pages);
      }
      if (pathname === "/transaction") {
        const sum = await sql.begin(async (sql) => {
          await sql`create temp table t (n int) on commit drop`;
          await sql`insert into t ${sql([{ n: 1 }, { n: 2 }])}`;
          return sql`select sum(n)::int as sum from t`;
        });
        return Response.json(sum[0]);
      }
      return Response.json(await sql`select * from missing`);
    } catch (error) {
      return Response.json({ code: error.code, name: error.name }, { status: 404 });
    } finally {
      ctx.waitUntil(sql.end());
    }
  },
};
