import { Redis } from "ioredis";

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const redis = new Redis(env.REDIS, { lazyConnect: true });
    await redis.connect();
    try {
      if (pathname === "/visits") {
        const [, visits] = await Promise.all([redis.set("visits", 41), redis.incr("visits"), redis.expire("visits", 60)]);
        return Response.json({ visits, text: await redis.get("visits") });
      }
      if (pathname === "/pipeline") {
        const answers = await redis.pipeline().hset("city", { name: "Arica", people: 222 }).hgetall("city").exec();
        return Response.json(answers.map(([, answer]) => answer));
      }
      if (pathname === "/script") return Response.json(await redis.eval("return {KEYS[1], ARGV[1]}", 1, "key", "value"));
      await redis.call("nonsense");
    } catch (error) {
      return Response.json({ message: error.message }, { status: 404 });
    } finally {
      redis.disconnect();
    }
  },
};
