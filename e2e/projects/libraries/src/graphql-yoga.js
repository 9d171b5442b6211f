import { createSchema, createYoga } from "graphql-yoga";

const schema = createSchema({
  typeDefs: `
    type Query { greeting: String! }
    type Subscription { lines: String! }
  `,
  resolvers: {
    Query: { greeting: (_, __, { GREETING }) => GREETING },
    Subscription: {
      lines: {
        async *subscribe() {
          for (let line = 0; line < 3; line++) yield { lines: `line ${line}` };
        },
      },
    },
  },
});
const yoga = createYoga({ schema, logging: false });

export default { fetch: (request, env, ctx) => yoga.fetch(request, env, ctx) };
