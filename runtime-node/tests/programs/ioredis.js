import Redis from "ioredis";

export default {
  async fetch(request, env) {
    const redis = new Redis({ host: "127.0.0.1", port: Number(env.REDIS) });
    await redis.set("greeting", "Grüße");
    const [greeting, missing] = await Promise.all([redis.get("greeting"), redis.get("missing")]);
    const piped = await redis.pipeline().incr("count").incr("count").exec();
    const many = await Promise.all(Array.from({ length: 300 }, () => redis.incr("many")));
    await redis.set("long", "x".repeat(200_000));
    const { length } = await redis.get("long");
    const failure = await redis.call("fail").catch((error) => error.message);
    await redis.quit();
    return Response.json({ greeting, missing, piped, last: many.at(-1), length, failure });
  },
};
