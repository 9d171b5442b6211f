// As little as a Worker can do with a request: what remains is the cost of getting it there and back.
export default {
  fetch(request) {
    const path = request.url.slice(request.url.indexOf("/", 8));
    return new Response(`Hello from ${path}\n`);
  },
};
