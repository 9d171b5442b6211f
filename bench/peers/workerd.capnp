# workerd alone. The command line sets the socket's address: --socket-addr http=127.0.0.1:PORT
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "hello", worker = .hello)],
  sockets = [(name = "http", service = "hello", http = ())],
);

const hello :Workerd.Worker = (
  modules = [(name = "hello.js", esModule = embed "hello.js")],
  compatibilityDate = "2026-11-01",
);
