// Calls respondWith with a promise that rejects, a second time, and with a value of another type,
// and dispatches the event again.
// expect: worker_exception or no_response
addEventListener('fetch', (event) => {
  event.respondWith(new Promise((resolve, reject) => reject(new Error('no'))));
  for (const again of [() => event.respondWith(new Response('second')), () => new FetchEvent('fetch', { request: event.request }).respondWith(1)]) {
    try {
      again();
    } catch {}
  }
  dispatchEvent(event);
});
