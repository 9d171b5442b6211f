export const onGet = ({ json, params }) => json(200, { id: params.id });

export const onPost = async ({ json, parseBody }) => json(201, { received: await parseBody() });
