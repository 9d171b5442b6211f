import pg from "pg";

const options = (env) => ({ host: "127.0.0.1", port: Number(env.POSTGRES), user: "ada", database: "app" });

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/refused") {
      const client = new pg.Client({ ...options(env), password: "wrong" });
      return Response.json(await client.connect().catch((error) => [error.code, error.message]));
    }
    const pool = new pg.Pool({ ...options(env), password: "secret", max: 3 });
    const simple = await pool.query("select 1");
    const bound = await Promise.all(["a", "ü", "x".repeat(100_000)].map((text) => pool.query("select $1::text", [text])));
    const failure = await pool.query("select * from nowhere where id = $1", [1]).catch((error) => error.code);
    const client = await pool.connect();
    const after = await client.query("select 2");
    client.release();
    await pool.end();
    return Response.json({
      simple: simple.rows,
      bound: bound.map(({ rows }) => rows[0].answer.length),
      failure,
      after: after.rows[0].answer,
    });
  },
};
