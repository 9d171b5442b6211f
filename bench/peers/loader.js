// Loads the hello Worker again for each host, by workerd's loader of Workers at run time.
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
