import { addBusinessDays, format, formatDistance, intervalToDuration, parseISO } from "date-fns";
import { de } from "date-fns/locale/de";

export default {
  fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const date = parseISO(searchParams.get("date") ?? "");
    if (Number.isNaN(date.getTime())) return new Response("date: not a date; use 2026-01-31", { status: 400 });
    if (pathname === "/due") return new Response(format(addBusinessDays(date, 3), "EEEE, d MMMM yyyy"));
    if (pathname === "/due/de") return new Response(format(addBusinessDays(date, 3), "EEEE, d. MMMM yyyy", { locale: de }));
    if (pathname === "/until") {
      const end = parseISO("2027-01-01");
      return Response.json({ text: formatDistance(date, end), ...intervalToDuration({ start: date, end }) });
    }
    return new Response("There is no such page", { status: 404 });
  },
};
