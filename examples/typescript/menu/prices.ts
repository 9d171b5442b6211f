export interface Dish {
  name: string;
  price: number;
}

export enum Meal {
  Lunch = "lunch",
  Dinner = "dinner",
}

/** Returns the price of a dish; lunch is cheaper. */
export function price(dish: Dish, meal: Meal): number {
  return meal === Meal.Lunch ? dish.price - 2 : dish.price;
}
