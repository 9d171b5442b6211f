import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

function App() {
    const [time, setTime] = useState("…");
    useEffect(() => {
        fetch("/api/time").then((response) => response.json()).then((body) => setTime(body.time));
    }, []);
    return <p>NAME says that it is {time}.</p>;
}

createRoot(document.getElementById("app")!).render(<StrictMode><App /></StrictMode>);
