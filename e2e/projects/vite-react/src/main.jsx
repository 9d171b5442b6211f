import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

function App() {
  const [greeting, setGreeting] = useState("waiting");
  useEffect(() => void fetch("/api/greeting").then(async (response) => setGreeting((await response.json()).greeting)), []);
  return <h1>The Worker says: {greeting}</h1>;
}

createRoot(document.getElementById("root")).render(<App />);
