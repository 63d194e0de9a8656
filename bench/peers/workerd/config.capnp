# workerd with a Worker Loader: every request runs in an isolate that is made for it.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  # The port is given on the command line.
  sockets = [(name = "http", http = (), service = "main")]
);

const main :Workerd.Worker = (
  modules = [(name = "main.js", esModule = embed "main.js")],
  bindings = [(name = "loader", workerLoader = ())],
  compatibilityDate = "2026-01-01",
  compatibilityFlags = ["experimental"]
);
