export const loader = ({ params }) => Response.json({ id: params.id });

export const action = async ({ request }) => Response.json({ received: await request.json() }, { status: 201 });
