export const GET = async (_, { params }) => Response.json({ id: (await params).id });

export const POST = async (request) => Response.json({ received: await request.json() }, { status: 201 });
