//! The data that V8 carries from the point where a promise reaction is registered to the point
//! where the reaction runs: the invocation to which the code belongs, and the contents of its
//! `AsyncLocalStorage`s.
//!
//! ```text
//!  7                      the invocation's number; all storages are empty
//!  [7, stores]            the number, and the contents of the storages (`node-async_hooks.js`)
//! ```
//!
//! A Worker never gets access to the number or the array, because it could then act for another
//! invocation. Each change makes a new array, in the built-in JavaScript or in this module. The
//! elements of an array are own properties, so reading them runs no code.
//!
//! Operations carry the stores as well, from the point where they begin to the turn in which they
//! complete.

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use super::ids::InvocationId;
use super::operations::Settle;

/// Indices of the number and of the stores in the array.
const OWNER: u32 = 0;
const STORES: u32 = 1;

/// Returns the invocation on whose behalf JavaScript is running. The invocation may have ended.
pub fn owner(scope: &v8::PinScope<'_, '_>) -> Option<InvocationId> {
    let carried = scope.get_continuation_preserved_embedder_data();
    let number = match carried.try_cast::<v8::Array>() {
        Ok(both) => both.get_index(scope, OWNER)?,
        Err(_) => carried,
    };
    number.try_cast::<v8::Number>().ok().map(|number| InvocationId::from_number(number.value()))
}

/// Wraps `work` so that, when it completes, the JavaScript that follows sees the current contents
/// of the storages.
pub fn keep(
    scope: &v8::PinScope<'_, '_>,
    owner: InvocationId,
    work: LocalBoxFuture<'static, Settle>,
) -> LocalBoxFuture<'static, Settle> {
    let carried = scope.get_continuation_preserved_embedder_data();
    let Ok(both) = carried.try_cast::<v8::Array>() else { return work };
    let Some(stores) = both.get_index(scope, STORES).map(|stores| v8::Global::new(scope, stores))
    else {
        return work;
    };
    let settle = move |settle: Settle| -> Settle {
        Box::new(move |scope| {
            let owner = v8::Number::new(scope, owner.to_number()).into();
            let stores = v8::Local::new(scope, &stores);
            let both = v8::Array::new_with_elements(scope, &[owner, stores]);
            scope.set_continuation_preserved_embedder_data(both.into());
            settle(scope)
        })
    };
    work.map(settle).boxed_local()
}
