// The page, which the Worker renders and the browser hydrates.
import { Suspense, use, useState } from "react";

export interface Dish {
    name: string;
    price: number;
}

export function App({ menu }: { menu: Promise<Dish[]> }) {
    return (
        <html lang="en">
            <head>
                <meta charSet="utf-8" />
                <title>Menu</title>
                <link rel="stylesheet" href="/style.css" />
            </head>
            <body>
                <h1>Menu</h1>
                <Suspense fallback={<p>The kitchen is writing the menu…</p>}>
                    <Menu menu={menu} />
                </Suspense>
            </body>
        </html>
    );
}

function Menu({ menu }: { menu: Promise<Dish[]> }) {
    const dishes = use(menu);
    const [ordered, setOrdered] = useState<Dish[]>([]);
    const sum = ordered.reduce((sum, dish) => sum + dish.price, 0);
    return (
        <>
            <ul>
                {dishes.map((dish) => (
                    <li key={dish.name}>
                        {dish.name}, {dish.price} €
                        <button onClick={() => setOrdered([...ordered, dish])}>Order</button>
                    </li>
                ))}
            </ul>
            <p>
                {ordered.length} ordered, {sum} €
            </p>
        </>
    );
}
