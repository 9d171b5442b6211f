export function loader() {
  throw new RangeError("on purpose");
}

export default function Broken() {
  return <p>never seen</p>;
}
