// Makes the page that the browser has received interactive. Until the data has arrived, React keeps
// the HTML that the Worker has rendered.
import { hydrateRoot } from "react-dom/client";

import { App } from "./app";

const menu = fetch("/api/menu").then((response) => response.json());
hydrateRoot(document, <App menu={menu} />);
