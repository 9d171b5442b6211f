# workerd with a Worker that loads others at run time. This needs --experimental. The command line
# sets the socket's address: --socket-addr http=127.0.0.1:PORT
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "loader", worker = .loader)],
  sockets = [(name = "http", service = "loader", http = ())],
);

const loader :Workerd.Worker = (
  modules = [
    (name = "loader.js", esModule = embed "loader.js"),
    (name = "hello.txt", text = embed "hello.js"),
  ],
  bindings = [(name = "loader", workerLoader = ())],
  compatibilityDate = "2026-11-01",
);
