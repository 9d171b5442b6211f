import OpenAI, { APIError } from "openai";

export default {
  async fetch(request, env) {
    const openai = new OpenAI({ apiKey: "key", baseURL: `${env.ORIGIN}/v1`, maxRetries: 1 });
    const messages = [{ role: "user", content: "Say hello" }];
    switch (new URL(request.url).pathname) {
      case "/chat": {
        const completion = await openai.chat.completions.create({ model: "m", messages });
        return new Response(completion.choices[0].message.content);
      }
      case "/stream": {
        const stream = await openai.chat.completions.create({ model: "m", messages, stream: true });
        let text = "";
        for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
        return new Response(text);
      }
      case "/relay":
        return new Response((await openai.chat.completions.create({ model: "m", messages, stream: true })).toReadableStream());
      case "/file": {
        const file = await openai.files.create({ file: new File(["some text"], "notes.txt"), purpose: "assistants" });
        return Response.json(file);
      }
      default:
        try {
          await openai.models.retrieve("none");
        } catch (error) {
          return Response.json({ is: error instanceof APIError, status: error.status, message: error.message });
        }
    }
  },
};
