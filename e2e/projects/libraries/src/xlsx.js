import * as XLSX from "xlsx";

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/book.xlsx") {
      const sheet = XLSX.utils.aoa_to_sheet([["name", "people"], ["Arica", 222], ["Iquique", 191]]);
      const book = XLSX.utils.book_new();
      XLSX.utils.book_append_sheet(book, sheet, "Cities");
      return new Response(XLSX.write(book, { type: "array", bookType: "xlsx", compression: true }), {
        headers: { "content-type": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
      });
    }
    if (pathname === "/rows") {
      const written = await this.fetch(new Request(new URL("/book.xlsx", request.url)));
      const { SheetNames, Sheets } = XLSX.read(await written.arrayBuffer());
      return Response.json({ SheetNames, rows: XLSX.utils.sheet_to_json(Sheets.Cities) });
    }
    return new Response("There is no such page", { status: 404 });
  },
};
