// Reads every clock before and after some work in one turn.
// expect: answer held
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    const format = new Intl.DateTimeFormat('en', { dateStyle: undefined, second: 'numeric', fractionalSecondDigits: 3 });
    const { format: bound } = format;
    const clocks = {
      now: () => Date.now(), date: () => +new Date(), text: () => Date(), sub: () => +new (class extends Date {})(),
      made: () => +Reflect.construct(Date, []), other: () => +Reflect.construct(Date, [], class extends Date {}),
      performance: () => performance.now(), event: () => new Event('x').timeStamp, format: () => format.format(), bound: () => bound(),
      undefined: () => bound(undefined), parts: () => JSON.stringify(format.formatToParts()), instant: () => String(Temporal.Now.instant()),
      zoned: () => String(Temporal.Now.zonedDateTimeISO()), plain: () => String(Temporal.Now.plainDateTimeISO()),
      time: () => String(Temporal.Now.plainTimeISO('Asia/Tokyo')), nanoseconds: () => String(Temporal.Now.instant().epochNanoseconds),
      constructor: () => +new (new Date(0).constructor)(),
    };
    const read = () => Object.values(clocks).map((clock) => clock());
    const before = read();
    for (let i = 0; i < 2e7; i++);
    const after = read();
    const moved = Object.keys(clocks).filter((_, i) => before[i] !== after[i]);
    return new Response(moved.length === 0 ? 'held' : moved.join());
  },
};
