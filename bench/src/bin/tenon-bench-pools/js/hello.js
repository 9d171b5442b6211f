// Does as little as possible, so that a measurement shows the cost of delivering the request.
export default {
  fetch(request) {
    const path = request.url.slice(request.url.indexOf("/", 8));
    return new Response(`Hello from ${path}\n`);
  },
};
