import { ApolloServer, HeaderMap } from "@apollo/server";

const typeDefs = `
  type Book { title: String!, pages(per: Int = 1): Int! }
  type Query { books: [Book!]!, greeting: String! }
  type Mutation { add(title: String!): Book! }
`;
const books = [{ title: "Joinery" }];
const resolvers = {
  Book: { pages: ({ title }, { per }) => title.length * per },
  Mutation: { add: (_, { title }) => ({ title }) },
  Query: { books: () => books, greeting: (_, __, { env }) => env.GREETING },
};
const server = new ApolloServer({ typeDefs, resolvers, introspection: true, stopOnTerminationSignals: false });

export default {
  async fetch(request, env) {
    server.startInBackgroundHandlingStartupErrorsByLoggingAndFailingAllRequests();
    const { pathname, search } = new URL(request.url);
    if (pathname !== "/graphql") return new Response("There is no such page", { status: 404 });
    const headers = new HeaderMap();
    for (const [name, value] of request.headers) headers.set(name, value);
    const body = request.method === "POST" ? await request.json() : undefined;
    const httpGraphQLRequest = { method: request.method, headers, search, body };
    const answer = await server.executeHTTPGraphQLRequest({ httpGraphQLRequest, context: () => ({ env }) });
    return new Response(answer.body.string, { status: answer.status ?? 200, headers: [...answer.headers] });
  },
};
