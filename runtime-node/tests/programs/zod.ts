import * as z from "zod";

const Address = z.object({ street: z.string().min(1), zip: z.string().regex(/^\d{5}$/) });
const Person = z.object({
  name: z.string().trim().min(2),
  email: z.email(),
  born: z.coerce.date(),
  tags: z.array(z.enum(["a", "b"])).default([]),
  address: Address.optional(),
  contact: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("phone"), number: z.string() }),
    z.object({ kind: z.literal("post"), address: Address }),
  ]),
});
type Person = z.infer<typeof Person>;

const describe = (person: Person): string => `${person.name}, ${person.born.getUTCFullYear()}, ${person.tags.join("+")}`;

export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(z.toJSONSchema(Address));
    const parsed = Person.safeParse(await request.json());
    if (parsed.success) return new Response(describe(parsed.data));
    return Response.json(parsed.error.issues.map((issue) => issue.path.join(".")), { status: 422 });
  },
};
