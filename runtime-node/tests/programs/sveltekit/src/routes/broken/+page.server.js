export function load() {
  throw new RangeError("on purpose");
}
