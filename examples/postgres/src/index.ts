import postgres, { type Sql } from "postgres";

interface Env {
    DATABASE_URL: string;
}

interface Context {
    waitUntil(promise: Promise<unknown>): void;
}

interface Note {
    id: string;
    text: string;
    at: Date;
}

/** PostgreSQL's error code for a value that violates a check constraint of the table. */
const CHECK_VIOLATION = "23514";

export default {
    async fetch(request: Request, env: Env, ctx: Context): Promise<Response> {
        // A socket ends with its request, so each request has a connection of its own. A pooler
        // such as PgBouncer in front of the database makes this cheap.
        const sql = postgres(env.DATABASE_URL, { max: 1, fetch_types: false });
        try {
            return await respond(request, sql);
        } catch (error) {
            if (error instanceof postgres.PostgresError && error.code === CHECK_VIOLATION) {
                return new Response("a note has 1 to 200 characters\n", { status: 400 });
            }
            throw error;
        } finally {
            ctx.waitUntil(sql.end());
        }
    },
};

async function respond(request: Request, sql: Sql): Promise<Response> {
    const { pathname } = new URL(request.url);
    const [, id] = /^\/notes\/(\d{1,18})$/.exec(pathname) ?? [];
    if (pathname === "/notes" && request.method === "GET") {
        const notes = await sql<Note[]>`
            select id, text, at from notes order by id desc limit 100`;
        return Response.json(notes);
    }
    if (pathname === "/notes" && request.method === "POST") {
        const text = await request.text();
        // The value is a parameter of the statement, never a part of its text.
        const [note] = await sql<Note[]>`
            insert into notes (text) values (${text}) returning id, text, at`;
        return Response.json(note, { status: 201 });
    }
    if (id && request.method === "DELETE") {
        const deleted = await sql`delete from notes where id = ${id}`;
        return new Response(null, { status: deleted.count === 1 ? 204 : 404 });
    }
    return new Response("not found\n", { status: 404 });
}
