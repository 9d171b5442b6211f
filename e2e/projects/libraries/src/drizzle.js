import { count, eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import pg from "pg";

const cities = pgTable("pg_temp.cities", { id: integer().primaryKey(), name: text().notNull() });

export default {
  async fetch(request, env) {
    const client = new pg.Client({ connectionString: env.POSTGRES });
    await client.connect();
    try {
      const db = drizzle(client);
      const { pathname } = new URL(request.url);
      await client.query('create temp table "pg_temp.cities" (id int primary key, name text not null)');
      await db.insert(cities).values([{ id: 1, name: "Arica" }, { id: 2, name: "Iquique" }]);
      if (pathname === "/cities") return Response.json(await db.select().from(cities).orderBy(cities.id));
      if (pathname === "/count") {
        const counted = await db.transaction(async (tx) => {
          await tx.delete(cities).where(eq(cities.id, 1));
          return tx.select({ count: count() }).from(cities);
        });
        return Response.json(counted[0]);
      }
      const [found] = await db.select().from(cities).where(eq(cities.name, pathname.slice(1)));
      return found ? Response.json(found) : new Response("There is no such city", { status: 404 });
    } finally {
      await client.end();
    }
  },
};
