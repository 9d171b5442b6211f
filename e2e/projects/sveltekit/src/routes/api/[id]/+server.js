import { json } from "@sveltejs/kit";

export const GET = ({ params }) => json({ id: params.id });

export const POST = async ({ request }) => json({ received: await request.json() }, { status: 201 });
