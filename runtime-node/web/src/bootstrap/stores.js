// The contents of `AsyncLocalStorage`s, for events and handlers that run later: V8 carries them
// along with promises, next to the number of the invocation (`engine::continuation`).
//: late, after later.js
(function (internal) {
  "use strict";

  const {
    getContinuationPreservedEmbedderData: carried, setContinuationPreservedEmbedderData: carry,
  } = internal.extras;

  internal.later("stores", [], () => {
    const OWNER = 0, STORES = 1;
    const isHeld = (now) => typeof now === "object" && now !== null;

    return {
      __proto__: null,

      // Returns the current contents, or null if all storages are empty.
      current() {
        const now = carried();
        return isHeld(now) ? now[STORES] : null;
      },

      // Calls `callback` with these contents, on behalf of the current invocation.
      within(stores, callback) {
        const before = carried();
        const owner = isHeld(before) ? before[OWNER] : before;
        carry(stores === null ? owner : [owner, stores]);
        try {
          return callback();
        } finally {
          carry(before);
        }
      },
    };
  });
})
