import { PDFDocument, StandardFonts, rgb } from "pdf-lib";

async function invoice(name) {
  const document = await PDFDocument.create();
  document.setTitle("Invoice");
  const font = await document.embedFont(StandardFonts.Helvetica);
  document.addPage([300, 200]).drawText(`For ${name}`, { x: 20, y: 150, size: 18, font, color: rgb(0, 0.3, 0.6) });
  return document.save();
}

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/invoice.pdf") return new Response(await invoice(searchParams.get("name")), { headers: { "content-type": "application/pdf" } });
    if (pathname === "/read") {
      const document = await PDFDocument.load(await invoice("Ada"));
      return Response.json({ title: document.getTitle(), pages: document.getPageCount(), size: document.getPage(0).getSize() });
    }
    return new Response("There is no such page", { status: 404 });
  },
};
