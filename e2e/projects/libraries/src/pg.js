import pg from "pg";

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const client = new pg.Client({ connectionString: env.POSTGRES });
    await client.connect();
    try {
      if (pathname === "/rows") {
        const { rows } = await client.query("select n, md5(n::text) as hash from generate_series($1::int, $2::int) n", [1, 3]);
        return Response.json(rows);
      }
      if (pathname === "/types") {
        const { rows } = await client.query("select now() as time, '{\"a\": [1]}'::jsonb as json, 12345678901234::int8 as big, '{x,y}'::text[] as list");
        const [{ time, ...others }] = rows;
        return Response.json({ ...others, isDate: time instanceof Date });
      }
      if (pathname === "/rolled-back") {
        await client.query("create temp table t (n int)");
        await client.query("begin");
        await client.query("insert into t values (1)");
        await client.query("rollback");
        return Response.json((await client.query("select count(*)::int from t")).rows[0]);
      }
      await client.query("select * from missing");
    } catch (error) {
      return Response.json({ code: error.code, message: error.message }, { status: 404 });
    } finally {
      await client.end();
    }
  },
};
