// Creates DOMExceptions with other constructors as `new.target`, whose property `prototype` is
// invalid or throws when it is read, and replaces what an exception might read.
// expect: answer fine
export default {
  async fetch() {
    const none = Reflect.construct(DOMException, ['m', 'N'], Object.assign(function () {}.bind(), { prototype: 1 }));
    if (none.name !== 'N' || !Error.isError(none)) throw none;
    const throwing = new Proxy(function () {}, { get() { throw new RangeError('mine'); } });
    try { Reflect.construct(DOMException, ['m'], throwing); } catch (error) { if (error.name !== 'RangeError') throw error; }
    Object.defineProperty(DOMException.prototype, 'name', { get() { throw new Error('met'); } });
    Error.prepareStackTrace = () => { throw new Error('met'); };
    const attempt = (run) => { try { run(); } catch (error) { console.log(error); } };
    for (let i = 0; i < 2; i++) {
      attempt(() => atob('*'));
      attempt(() => structuredClone(() => {}));
      attempt(() => structuredClone(none));
      attempt(() => console.log(new QuotaExceededError('m', { quota: 1 })));
      attempt(() => crypto.getRandomValues(new Uint8Array(1e6)));
      Error.stackTraceLimit = 0;
    }
    return new Response('fine');
  },
};
