import { HttpStatusCode } from "@solidjs/start";

export default () => (
  <main>
    <HttpStatusCode code={404} />
    <h1>There is no such page</h1>
  </main>
);
