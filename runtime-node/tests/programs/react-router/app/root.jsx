import { Links, Meta, Outlet, Scripts, isRouteErrorResponse } from "react-router";
import "./app.css";

export function Layout({ children }) {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}

export function ErrorBoundary({ error }) {
  const text = isRouteErrorResponse(error) ? `${error.status}: ${error.data}` : `caught: ${error.message}`;
  return <h1>{text}</h1>;
}
