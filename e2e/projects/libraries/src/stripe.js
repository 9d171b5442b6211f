import Stripe from "stripe";

export default {
  async fetch(request, env) {
    const { hostname, port } = new URL(env.ORIGIN);
    const stripe = new Stripe("sk_test_key", { host: hostname, port, protocol: "http", maxNetworkRetries: 0, httpClient: Stripe.createFetchHttpClient() });
    const { pathname } = new URL(request.url);
    if (pathname === "/customers") {
      const { data } = await stripe.customers.list({ limit: 2 });
      return Response.json(data.map(({ email }) => email));
    }
    if (pathname === "/webhook") {
      const signature = request.headers.get("stripe-signature");
      try {
        const event = await stripe.webhooks.constructEventAsync(await request.text(), signature, "whsec_key", Infinity, Stripe.createSubtleCryptoProvider());
        return Response.json({ type: event.type });
      } catch (error) {
        return Response.json({ error: error.type }, { status: 400 });
      }
    }
    const failure = await stripe.customers.retrieve("missing").catch((error) => error);
    return Response.json({ type: failure.type, message: failure.message }, { status: failure.statusCode });
  },
};
