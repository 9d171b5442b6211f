// Computes with dates at the limits of calendars.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const calendars = ['iso8601', 'hebrew', 'chinese', 'islamic-civil', 'persian', 'ethiopic', 'japanese', 'dangi'];
    for (let i = 0;; i++) {
      for (const calendar of calendars) {
        try {
          const day = Temporal.PlainDate.from('-271821-04-19').withCalendar(calendar);
          day.until(Temporal.PlainDate.from('+275760-09-13').withCalendar(calendar), { largestUnit: 'months' });
          day.add({ years: i ** 5, months: 2 ** 31, days: 2 ** 31 });
        } catch {}
        try {
          Temporal.Duration.from({ years: 2 ** 32 - 1 }).round({ largestUnit: 'nanoseconds', relativeTo: '-271821-04-20' });
        } catch {}
        try {
          Temporal.ZonedDateTime.from('+275760-09-13T00:00[Asia/Tokyo]').add({ hours: 2 ** 52 }).toLocaleString('ar', { calendar });
        } catch {}
      }
    }
  },
};
