import OpenAI from "openai";

export default {
  async fetch(request, env) {
    const openai = new OpenAI({ apiKey: "key", baseURL: `${env.ORIGIN}/v1`, maxRetries: 0 });
    const messages = [{ role: "user", content: "Say hello" }];
    const { pathname } = new URL(request.url);
    if (pathname === "/answer") {
      const { choices, usage } = await openai.chat.completions.create({ model: "small", messages });
      return Response.json({ text: choices[0].message.content, tokens: usage.total_tokens });
    }
    if (pathname === "/stream") {
      const stream = await openai.chat.completions.create({ model: "small", messages, stream: true });
      const text = async function* () {
        for await (const { choices } of stream) yield choices[0]?.delta?.content ?? "";
      };
      return new Response(ReadableStream.from(text()).pipeThrough(new TextEncoderStream()));
    }
    const failure = await openai.models.retrieve("missing").catch((error) => error);
    return Response.json({ name: failure.constructor.name }, { status: failure.status });
  },
};
