export const load = ({ locals, platform, getClientAddress }) => ({
  greeting: platform.env.GREETING,
  visits: locals.visits,
});
