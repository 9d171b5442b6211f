import dishes from "./menu.json";
import page from "./page.html";
// The file is prices.ts. As usual in TypeScript, the import may name its output.
import { Meal, price, type Dish } from "./prices.js";

interface Env {
  CURRENCY: string;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    switch (pathname) {
      case "/":
        return new Response(page.replace("{dishes}", list(dishes, env)), {
          headers: { "content-type": "text/html; charset=utf-8" },
        });
      case "/lunch":
        return Response.json(dishes.map((dish: Dish) => ({ ...dish, price: price(dish, Meal.Lunch) })));
      case "/fail":
        // The log names this position: `worker.ts:22:15`.
        throw new Error("the kitchen is closed");
      default:
        return new Response("Not found\n", { status: 404 });
    }
  },
};

function list(dishes: readonly Dish[], env: Env): string {
  return dishes.map((dish) => `<li>${dish.name}: ${price(dish, Meal.Dinner)} ${env.CURRENCY}</li>`).join("");
}
