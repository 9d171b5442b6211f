// The contents of `AsyncLocalStorage`s, for events and handlers that run later: V8 carries them
// along with promises, next to the number of the invocation (`engine::continuation`).
//: late, after later.js
(function (internal) {
  "use strict";

  const {
    getContinuationPreservedEmbedderData: getData, setContinuationPreservedEmbedderData: setData,
  } = internal.extras;

  internal.later("stores", [], () => {
    const OWNER = 0, STORES = 1;
    const hasStores = (data) => typeof data === "object" && data !== null;

    return {
      __proto__: null,

      // Returns the current contents, or null if all storages are empty.
      current() {
        const data = getData();
        return hasStores(data) ? data[STORES] : null;
      },

      // Calls `callback` with these contents, on behalf of the current invocation.
      within(stores, callback) {
        const before = getData();
        const owner = hasStores(before) ? before[OWNER] : before;
        setData(stores === null ? owner : [owner, stores]);
        try {
          return callback();
        } finally {
          setData(before);
        }
      },
    };
  });
})
