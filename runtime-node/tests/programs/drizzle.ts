import { and, asc, count, desc, eq, gt, inArray, like, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/pg-proxy";
import { integer, pgTable, serial, text, timestamp } from "drizzle-orm/pg-core";

const users = pgTable("users", { id: serial("id").primaryKey(), name: text("name").notNull(), age: integer("age") });
const posts = pgTable("posts", {
  id: serial("id").primaryKey(),
  author: integer("author").references(() => users.id),
  title: text("title").notNull(),
  at: timestamp("at").defaultNow(),
});

const asked: unknown[] = [];
const db = drizzle(async (query, params, method) => {
  asked.push({ query, params, method });
  return { rows: [[1, "Ada", 36]] };
});

const queries: Record<string, () => { toSQL(): { sql: string; params: unknown[] } }> = {
  select: () => db.select().from(users).where(and(gt(users.age, 30), like(users.name, "A%"))).orderBy(desc(users.age)).limit(3),
  join: () =>
    db
      .select({ name: users.name, posts: count(posts.id) })
      .from(users)
      .leftJoin(posts, eq(posts.author, users.id))
      .groupBy(users.name)
      .having(sql`count(${posts.id}) > ${1}`)
      .orderBy(asc(users.name)),
  insert: () => db.insert(users).values([{ name: "Ada", age: 36 }, { name: "Grace" }]).onConflictDoNothing().returning({ id: users.id }),
  update: () => db.update(users).set({ age: sql`${users.age} + 1` }).where(inArray(users.id, [1, 2])),
};

export default {
  async fetch(request: Request): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1);
    if (name !== "run") return Response.json(queries[name].call(null).toSQL());
    return Response.json({ rows: await db.select().from(users).where(eq(users.id, 1)), asked });
  },
};
