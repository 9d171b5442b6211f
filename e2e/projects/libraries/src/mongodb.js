import { MongoClient } from "mongodb";

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const client = new MongoClient(env.MONGODB, { maxPoolSize: 1, serverSelectionTimeoutMS: 5000 });
    try {
      const cities = client.db("app").collection(`cities-${crypto.randomUUID()}`);
      await cities.insertMany([{ name: "Arica", people: 222 }, { name: "Iquique", people: 191 }]);
      if (pathname === "/large") return Response.json(await cities.find({ people: { $gt: 200 } }, { projection: { _id: 0 } }).toArray());
      if (pathname === "/grown") {
        await cities.updateOne({ name: "Arica" }, { $inc: { people: 1 } });
        return Response.json({ people: (await cities.findOne({ name: "Arica" })).people });
      }
      const found = await cities.findOne({ name: pathname.slice(1) });
      return found ? Response.json(found.name) : new Response("There is no such city", { status: 404 });
    } finally {
      await client.close();
    }
  },
};
