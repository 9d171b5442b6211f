export default defineEventHandler(() =>
  ReadableStream.from(
    (async function* () {
      for (let line = 0; line < 3; line++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        yield new TextEncoder().encode(`line ${line}\n`);
      }
    })(),
  ),
);
