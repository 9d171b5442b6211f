import mysql from "mysql2/promise";

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const connection = await mysql.createConnection({ uri: env.MYSQL, disableEval: true });
    try {
      if (pathname === "/rows") {
        const [rows] = await connection.execute("select ? + 1 as n, upper(?) as text", [41, "ä"]);
        return Response.json(rows);
      }
      if (pathname === "/transaction") {
        await connection.query("create temporary table t (n int)");
        await connection.beginTransaction();
        await connection.query("insert into t values ?", [[[1], [2]]]);
        const [[before]] = await connection.query("select count(*) as n from t");
        await connection.rollback();
        return Response.json(before);
      }
      await connection.query("select * from missing");
    } catch (error) {
      return Response.json({ code: error.code }, { status: 404 });
    } finally {
      await connection.end();
    }
  },
};
