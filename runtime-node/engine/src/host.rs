//! The host hooks of every isolate: the work that ECMAScript and V8 delegate to the embedder.

use super::callbacks::HostHooks;
use super::{modules, uncaught};

/// The implementation of the hooks for [`callbacks::install`](super::callbacks::install).
pub(crate) struct Host;

impl HostHooks for Host {
    fn track_rejection(scope: &mut v8::PinScope<'_, '_>, message: &v8::PromiseRejectMessage<'_>) {
        uncaught::record(scope, message);
    }

    fn report_uncaught<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) {
        uncaught::log(scope, value);
    }

    fn fill_import_meta(
        scope: &mut v8::PinScope<'_, '_>,
        module: v8::Local<'_, v8::Module>,
        meta: v8::Local<'_, v8::Object>,
    ) {
        modules::fill_meta(scope, module, meta);
    }

    fn import_dynamically<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        referrer: v8::Local<'s, v8::Value>,
        specifier: v8::Local<'s, v8::String>,
        attributes: v8::Local<'s, v8::FixedArray>,
    ) -> Option<v8::Local<'s, v8::Promise>> {
        modules::import_dynamically(scope, referrer, specifier, attributes)
    }
}
