import { isRouteErrorResponse, Links, Meta, Outlet, Scripts, useRouteError } from "@remix-run/react";

const Page = ({ children }) => (
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

export default () => (
  <Page>
    <Outlet />
  </Page>
);

export function ErrorBoundary() {
  const error = useRouteError();
  return (
    <Page>
      <h1>{isRouteErrorResponse(error) ? `There is no such page: ${error.status}` : "Failed"}</h1>
    </Page>
  );
}
