import module from "./mandelbrot.wasm";
import { bitmap } from "./bitmap.js";

interface Mandelbrot {
  memory: WebAssembly.Memory;
  draw(size: number, x: number, y: number, width: number): void;
}

/** The width and height of the image, in pixels. The module's memory has space for 512. */
const SIZE = 256;

// One instance serves all requests of the isolate, since a drawing leaves nothing behind.
const { memory, draw } = new WebAssembly.Instance(module).exports as unknown as Mandelbrot;

export default {
  fetch(request: Request): Response {
    const { searchParams } = new URL(request.url);
    const number = (name: string, fallback: number) => Number(searchParams.get(name) ?? fallback);
    const [x, y, zoom] = [number("x", -0.75), number("y", 0), number("zoom", 1)];
    if (![x, y, zoom].every(Number.isFinite) || zoom <= 0) {
      return new Response("x, y and zoom: must be numbers, and zoom positive\n", { status: 400 });
    }
    draw(SIZE, x, y, 2.5 / zoom);
    return new Response(bitmap(SIZE, new Uint8Array(memory.buffer, 0, SIZE * SIZE)), {
      headers: { "content-type": "image/bmp", "cache-control": "public, max-age=86400" },
    });
  },
};
