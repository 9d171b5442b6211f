export default {
  /** Runs at the times in `spec.schedules`. `tenon dev` runs it at the same times. */
  async scheduled(controller) {
    console.log(`called for ${new Date(controller.scheduledTime).toISOString()}`);
  },

  fetch() {
    return new Response("This Worker runs every five minutes.\n");
  },
};
