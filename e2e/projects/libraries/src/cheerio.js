import * as cheerio from "cheerio";

export default {
  async fetch(request, env) {
    const page = await fetch(`${env.ORIGIN}${new URL(request.url).pathname}`);
    if (!page.ok) return Response.json({ status: page.status }, { status: 404 });
    const $ = cheerio.load(await page.text());
    const rows = $("table tr").map((_, row) => [$(row).find("td").map((_, cell) => $(cell).text()).get()]).get();
    $("h1").addClass("title").text((_, text) => text.toUpperCase());
    return Response.json({ title: $("h1.title").text(), rows, html: $.html("h1") });
  },
};
