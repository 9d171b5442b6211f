import Stripe from "stripe";

const SECRET = "whsec_secret";

export default {
  async fetch(request, env) {
    const { hostname, port } = new URL(env.ORIGIN);
    const stripe = new Stripe("sk_test", {
      host: hostname, port, protocol: "http", telemetry: false, maxNetworkRetries: 1, httpClient: Stripe.createFetchHttpClient(),
    });
    const cryptography = Stripe.createSubtleCryptoProvider();
    const { pathname } = new URL(request.url);
    try {
      switch (pathname) {
        case "/customer": {
          const customer = await stripe.customers.create(
            { name: "Ada Lovelace", metadata: { born: "1815" }, preferred_locales: ["en", "fr"] },
            { idempotencyKey: "once" },
          );
          return Response.json(customer);
        }
        case "/customers": {
          const names = [];
          for await (const { name } of stripe.customers.list({ limit: 2 })) names.push(name);
          return Response.json(names);
        }
        case "/webhook": {
          const signature = request.headers.get("stripe-signature");
          const event = await stripe.webhooks.constructEventAsync(await request.text(), signature, SECRET, undefined, cryptography);
          return Response.json({ type: event.type, amount: event.data.object.amount });
        }
        // Sends the request that Stripe would send to the case above.
        case "/signed": {
          const payload = JSON.stringify({ type: "charge.succeeded", data: { object: { amount: 100 } } });
          const signature = await stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: SECRET, cryptoProvider: cryptography });
          return this.fetch(new Request(new URL("/webhook", request.url), { method: "POST", body: payload, headers: { "stripe-signature": signature } }), env);
        }
        default:
          return Response.json(await stripe.charges.create({ amount: 1, currency: "eur" }));
      }
    } catch (error) {
      return Response.json({ type: error.type, code: error.code, message: error.message.split("\n")[0] }, { status: error.statusCode ?? 400 });
    }
  },
};
