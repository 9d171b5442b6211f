// Checks of the methods of Array on arrays that are too long for one native call.
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("Array");

// A length that exceeds the number of elements that native code fills in one step.
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

check("positions that are not numbers are refused for a long array", () => {
  const array = new Array(LONG);
  throws("TypeError", () => array.fill(0, 1n));
  throws("TypeError", () => array.fill(0, 0, Symbol()));
  equal(0 in array, false);
});

// An array whose elements are their indices, except for one hole.
const HOLE = 2 ** 21 + 1;
const long = Array.from({ length: LONG }, (_, i) => i);
delete long[HOLE];

check("callbacks visit each element of a long array, with its index", () => {
  const self = {};
  let visited = 0;
  const visit = function (element, index, list) {
    if (this !== self || element !== index || list !== long) throw new Error(`visited ${element} at ${index}`);
    visited++;
    return false;
  };
  equal(long.forEach(visit, self), undefined);
  equal(long.some(visit, self), false);
  equal(long.filter(visit, self), []);
  equal(visited, 3 * (LONG - 1));
});

check("the results of callbacks determine what the methods of a long array return", () => {
  const isEnd = (element) => element === undefined || element === LONG - 1;
  equal([long.find(isEnd), long.findIndex(isEnd), long.some(isEnd), long.every(isEnd)], [undefined, HOLE, true, false]);
  equal([long.every((element) => element !== undefined), long.find((element) => element < 0)], [true, undefined]);
  equal([long.filter(isEnd), long.findIndex((element) => element < 0)], [[LONG - 1], -1]);
  const doubled = long.map((element) => 2 * element);
  equal([doubled.length, doubled.at(-1), doubled[7], HOLE in doubled], [LONG, 2 * (LONG - 1), 14, false]);
});

check("a long array is reduced from its first element or an initial value", () => {
  const sum = (LONG * (LONG - 1)) / 2 - HOLE;
  const add = (total, element) => total + element;
  equal([long.reduce(add), long.reduce(add, 1), new Array(LONG).reduce(add, 2)], [sum, sum + 1, 2]);
  throws("TypeError", () => new Array(LONG).reduce(add));
});

check("searches of a long array treat holes as the standard says", () => {
  equal([long.indexOf(LONG - 1), long.indexOf(5, 6), long.indexOf(5, -LONG), long.indexOf(5, 5)], [LONG - 1, -1, 5, 5]);
  equal([long.indexOf(undefined), long.includes(undefined), long.includes(undefined, HOLE + 1)], [-1, true, false]);
  const last = new Array(LONG).fill(0, -1);
  last[LONG - 2] = NaN;
  equal([last.includes(NaN), last.indexOf(NaN), last.includes(-0), last.includes(1)], [true, -1, true, false]);
});

check("a slice of a long array keeps holes", () => {
  equal(long.slice(HOLE - 1, HOLE + 2).length, 3);
  equal(Object.keys(long.slice(HOLE - 1, HOLE + 2)), ["0", "2"]);
  equal([long.slice(-2), long.slice(5, 3), long.slice(1).length], [[LONG - 2, LONG - 1], [], LONG - 1]);
});

check("elements that a callback adds to a long array are not visited, and those it deletes are skipped", () => {
  const array = new Array(LONG).fill(1);
  let visited = 0;
  array.forEach((_, index) => {
    visited++;
    if (index === 0) {
      array.push(1);
      delete array[LONG - 1];
    }
  });
  equal(visited, LONG - 1);
});

check("methods of a subclass return instances of the subclass", () => {
  class List extends Array {}
  const list = List.from({ length: 2 ** 21 + 1 }, (_, i) => i);
  equal([list.slice(-1) instanceof List, list.filter((i) => i > 2 ** 21 - 1).length], [true, 1]);
});

check("a callback that is not a function is refused for a long array", () => {
  for (const name of ["every", "filter", "find", "findIndex", "forEach", "map", "reduce", "some"]) {
    throws("TypeError", () => long[name]({}));
  }
});
