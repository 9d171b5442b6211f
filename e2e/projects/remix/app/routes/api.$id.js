import { json } from "@remix-run/cloudflare";

export const loader = ({ params }) => json({ id: params.id });

export const action = async ({ request }) => json({ received: await request.json() }, { status: 201 });
