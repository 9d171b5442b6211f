export default {
  /** Answers every request. */
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    return new Response(`${env.GREETING} from ${pathname}\n`);
  },
};
