export default {
  /** Echoes the messages of WebSockets, and serves a page that opens one. */
  fetch(request) {
    if (request.headers.get("upgrade") !== "websocket") {
      return new Response(PAGE, { headers: { "content-type": "text/html; charset=utf-8" } });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener("message", ({ data }) => server.send(`You said: ${data}`));
    return new Response(null, { status: 101, webSocket: client });
  },
};

const PAGE = `<!doctype html>
<title>Echo</title>
<input placeholder="Say something and press Enter" autofocus>
<pre></pre>
<script>
  const socket = new WebSocket(location.href.replace(/^http/, "ws"));
  const input = document.querySelector("input");
  input.onchange = () => { socket.send(input.value); input.value = ""; };
  socket.onmessage = ({ data }) => document.querySelector("pre").append(data, "\\n");
</script>
`;
