import { PhotonImage, resize, SamplingFilter } from "@cf-wasm/photon/workerd";

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname !== "/small.png") return new Response("There is no such image", { status: 404 });
    const pixels = new Uint8Array(64 * 64 * 4).map((_, at) => (at % 4 === 0 || at % 4 === 3 ? 255 : 0));
    const image = new PhotonImage(pixels, 64, 64);
    const small = resize(image, 16, 8, SamplingFilter.Lanczos3);
    const bytes = small.get_bytes();
    image.free();
    small.free();
    return new Response(bytes, { headers: { "content-type": "image/png" } });
  },
};
