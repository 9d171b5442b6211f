import page from "./page.html";

/** The number of participants that the room has space for. */
const CAPACITY = 200;

/** The longest name and message, in characters. */
const LONGEST = { name: 40, text: 2000 };

const participants = new Map<WebSocket, string>();

export default {
  fetch(request: Request): Response {
    if (request.headers.get("upgrade") !== "websocket") {
      return new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } });
    }
    if (participants.size >= CAPACITY) {
      return new Response("The room is full\n", { status: 503, headers: { "retry-after": "10" } });
    }
    const name = new URL(request.url).searchParams.get("name") ?? "";
    if (name === "" || name.length > LONGEST.name) {
      return new Response(`name: give one of at most ${LONGEST.name} characters\n`, { status: 400 });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    join(server, name);
    return new Response(null, { status: 101, webSocket: client });
  },
};

function join(socket: WebSocket, name: string): void {
  participants.set(socket, name);
  tell({ joined: name, present: [...participants.values()] });

  socket.addEventListener("message", ({ data }) => {
    if (typeof data !== "string" || data.length > LONGEST.text) {
      socket.close(1008, `send text of at most ${LONGEST.text} characters`);
      return;
    }
    tell({ from: name, text: data });
  });

  // A broken connection ends with the event `error`, and a closed one with `close`.
  for (const event of ["close", "error"]) {
    socket.addEventListener(event, () => {
      if (participants.delete(socket)) tell({ left: name });
    });
  }
}

function tell(message: object): void {
  const text = JSON.stringify(message);
  for (const socket of participants.keys()) socket.send(text);
}
