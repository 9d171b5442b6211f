// Loads a copy of the hello Worker for each host at run time, through workerd's `workerLoader`.
import source from "hello.txt";

export default {
  fetch(request, env) {
    const worker = env.loader.get(new URL(request.url).hostname, () => ({
      compatibilityDate: "2026-11-01",
      mainModule: "hello.js",
      modules: { "hello.js": source },
    }));
    return worker.getEntrypoint().fetch(request);
  },
};
