export const GET = ({ params }) => Response.json({ id: params.id });

export const POST = async ({ request }) => Response.json({ received: await request.json() }, { status: 201 });
