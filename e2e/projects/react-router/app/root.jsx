import { isRouteErrorResponse, Links, Meta, Outlet, Scripts } from "react-router";

export function Layout({ children }) {
  return (
    <html lang="en">
      <head>
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

export default () => <Outlet />;

export function ErrorBoundary({ error }) {
  return <h1>{isRouteErrorResponse(error) ? `There is no such page: ${error.status}` : error.message}</h1>;
}
