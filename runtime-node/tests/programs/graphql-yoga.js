import { createSchema, createYoga } from "graphql-yoga";

const books = [{ id: "1", title: "Notes", author: "Ada" }];

const yoga = createYoga({
  graphqlEndpoint: "/graphql",
  landingPage: false,
  logging: false,
  schema: createSchema({
    typeDefs: /* GraphQL */ `
      type Book { id: ID!, title: String!, author: String! }
      type Query { books: [Book!]!, book(id: ID!): Book, slow: String! }
      type Mutation { add(title: String!, author: String!): Book! }
      type Subscription { countdown(from: Int!): Int! }
    `,
    resolvers: {
      Query: {
        books: () => books,
        book: (_, { id }) => books.find((book) => book.id === id) ?? null,
        slow: () => new Promise((resolve) => setTimeout(resolve, 2, "done")),
      },
      Mutation: {
        add(_, { title, author }) {
          const book = { id: String(books.length + 1), title, author };
          books.push(book);
          return book;
        },
      },
      Subscription: {
        countdown: {
          async *subscribe(_, { from }) {
            for (let i = from; i >= 0; i--) {
              await new Promise((resolve) => setTimeout(resolve, 1));
              yield { countdown: i };
            }
          },
        },
      },
    },
  }),
});

export default { fetch: (request, env, ctx) => yoga.fetch(request, { env, ctx }) };
