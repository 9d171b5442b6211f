// @refresh reload
import { createHandler, StartServer } from "@solidjs/start/server";

const page = ({ assets, children, scripts }) => (
  <html lang="en">
    <head>{assets}</head>
    <body>
      <div id="app">{children}</div>
      {scripts}
    </body>
  </html>
);

export default createHandler(() => <StartServer document={page} />);
