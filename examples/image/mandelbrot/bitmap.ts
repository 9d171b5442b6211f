/** The length of the headers and of the table of 256 colors, in bytes. */
const HEADERS = 14 + 40;
const COLORS = 256 * 4;

/**
 * Returns a square image in the format BMP, with a byte for each pixel.
 *
 * @param size the width and height, a multiple of 4, because BMP pads rows to multiples of 4 bytes
 */
export function bitmap(size: number, pixels: Uint8Array): Uint8Array {
  const file = new Uint8Array(HEADERS + COLORS + pixels.length);
  const view = new DataView(file.buffer);
  view.setUint16(0, 0x424d); // "BM"
  view.setUint32(2, file.length, true);
  view.setUint32(10, HEADERS + COLORS, true);
  view.setUint32(14, 40, true);
  view.setInt32(18, size, true);
  view.setInt32(22, -size, true); // The first row is the top.
  view.setUint16(26, 1, true);
  view.setUint16(28, 8, true);
  for (let i = 0; i < 256; i++) {
    // The set itself is black, and its surroundings become lighter toward it.
    const light = i === 255 ? 0 : i;
    view.setUint32(HEADERS + 4 * i, ((light * light) >> 8 << 16) | (light << 8) | (light >> 1), true);
  }
  file.set(pixels, HEADERS + COLORS);
  return file;
}
