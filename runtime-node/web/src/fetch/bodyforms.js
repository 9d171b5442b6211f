// `blob()` and `formData()` of bodies (Fetch §5.3).
//: after formdata.js request.js response.js
(function (internal) {
  "use strict";

  const { ObjectDefineProperties, ObjectGetOwnPropertyDescriptor, ObjectGetOwnPropertyDescriptors, uncurryThis } =
    internal.primordials;
  const { headers: { listOf }, body: { mixins, readBytes }, mime } = internal;

  for (let i = 0; i < mixins.length; i++) {
    const { bodyOf, constructor: { prototype } } = mixins[i];
    const headersOf = uncurryThis(ObjectGetOwnPropertyDescriptor(prototype, "headers").get);
    const members = {
      async blob() {
        const bytes = await readBytes(bodyOf(this));
        const type = mime.extract(listOf(headersOf(this)));
        return internal.blobs().newBlob(bytes, type === null ? "" : mime.serialize(type));
      },
      async formData() {
        const bytes = await readBytes(bodyOf(this));
        return internal.forms().parse(bytes, mime.extract(listOf(headersOf(this))));
      },
    };
    ObjectDefineProperties(prototype, ObjectGetOwnPropertyDescriptors(members));
  }
})
