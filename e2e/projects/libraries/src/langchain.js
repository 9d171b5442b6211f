import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

const add = tool(({ a, b }) => String(a + b), {
  name: "add",
  description: "Adds two numbers",
  schema: z.object({ a: z.number(), b: z.number() }),
});

export default {
  async fetch(request, env) {
    const model = new ChatOpenAI({ model: "small", apiKey: "key", maxRetries: 0, configuration: { baseURL: `${env.ORIGIN}/v1` } });
    const prompt = ChatPromptTemplate.fromMessages([["system", "You answer {manner}."], ["user", "{question}"]]);
    const chain = prompt.pipe(model).pipe(new StringOutputParser());
    const { pathname } = new URL(request.url);
    if (pathname === "/answer") return Response.json({ text: await chain.invoke({ manner: "briefly", question: "Say hello" }) });
    if (pathname === "/stream") {
      const stream = await chain.stream({ manner: "briefly", question: "Say hello" });
      return new Response(ReadableStream.from(stream).pipeThrough(new TextEncoderStream()));
    }
    if (pathname === "/tool") return Response.json({ sum: await add.invoke({ a: 2, b: 3 }) });
    const failure = await add.invoke({ a: "two" }).catch((error) => error);
    return Response.json({ message: failure.message }, { status: 400 });
  },
};
