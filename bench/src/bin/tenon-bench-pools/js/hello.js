// Does the minimum for a request, so that the cost of delivering it is what is measured.
export default {
  fetch(request) {
    const path = request.url.slice(request.url.indexOf("/", 8));
    return new Response(`Hello from ${path}\n`);
  },
};
