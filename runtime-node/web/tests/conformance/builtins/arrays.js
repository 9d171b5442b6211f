import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("Array");

// Longer than what native code fills in one step.
const LONG = 2 ** 22 + 10;

check("a long array is filled from its start to its end", () => {
  const array = new Array(LONG);
  equal(array.fill("x") === array, true);
  equal([array.indexOf(undefined), array.at(0), array.at(2 ** 21), array.at(-1)], [-1, "x", "x", "x"]);
});

check("a part of a long array is filled", () => {
  const array = new Array(LONG).fill(0);
  const ones = () => [array.indexOf(1), array.lastIndexOf(1)];
  array.fill(1, 5, 2 ** 21 + 7);
  equal(ones(), [5, 2 ** 21 + 6]);
  array.fill(0).fill(1, -3.9, -1.5);
  equal(ones(), [LONG - 3, LONG - 2]);
  array.fill(0).fill(1, -Infinity, NaN);
  equal(ones(), [-1, -1]);
  array.fill(1, "1", { valueOf: () => Infinity });
  equal(ones(), [1, LONG - 1]);
});

check("positions that are no numbers are refused for a long array", () => {
  const array = new Array(LONG);
  throws("TypeError", () => array.fill(0, 1n));
  throws("TypeError", () => array.fill(0, 0, Symbol()));
  equal(0 in array, false);
});
