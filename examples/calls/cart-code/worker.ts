// Other Workers call the methods of these classes. This Worker answers no requests.

import { RpcTarget, WorkerEntrypoint } from "cloudflare:workers";

interface Line {
  name: string;
  price: number;
}

const PRICES = new Map([["tea", 3], ["cake", 5]]);

// A cart stays in this isolate. Callers get a stub of the cart, and cannot read the cart's private
// fields.
class Cart extends RpcTarget {
  #lines: Line[] = [];

  add(name: string): number {
    const price = PRICES.get(name);
    if (price === undefined) throw new RangeError(`there is no ${name}`);
    return this.#lines.push({ name, price });
  }

  get total(): number {
    return this.#lines.reduce((sum, line) => sum + line.price, 0);
  }

  // Calls back for each line, so that the caller formats it.
  async each(show: (line: Line) => unknown): Promise<void> {
    for (const line of this.#lines) await show(line);
  }
}

export default class extends WorkerEntrypoint<{ CURRENCY: string }> {
  open(): Cart {
    return new Cart();
  }

  format(amount: number): string {
    return `${amount} ${this.env.CURRENCY}`;
  }
}

export class Admin extends WorkerEntrypoint {
  setPrice(name: string, price: number): void {
    PRICES.set(name, price);
  }
}
