//! What V8 carries along from where a promise is reacted to, to where that reaction runs: whose the code is that runs,
//! and what its `AsyncLocalStorage`s hold.
//!
//! ```text
//!  7                      the invocation's number, and no storage holds anything
//!  [7, stores]            the same with a list of what they hold (`node-async_hooks.js`)
//! ```
//!
//! A Worker never gets hold of either: it could speak for another invocation. An array is made anew for each change, by
//! JavaScript of ours or here, with places of its own, so that reading them runs no code.
//!
//! Operations carry the stores as well, from where they begin to the turn in which they end.

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use super::invocation::InvocationId;
use super::operations::Settle;

/// Where the number and the stores are in the array.
const OWNER: u32 = 0;
const STORES: u32 = 1;

/// The invocation on whose behalf JavaScript is running, or was when it was in flight.
pub(super) fn owner(scope: &v8::PinScope<'_, '_>) -> Option<InvocationId> {
    let carried = scope.get_continuation_preserved_embedder_data();
    let number = match carried.try_cast::<v8::Array>() {
        Ok(both) => both.get_index(scope, OWNER)?,
        Err(_) => carried,
    };
    number.try_cast::<v8::Number>().ok().map(|number| InvocationId::from_number(number.value()))
}

/// The same work; when it is done, what follows from it in JavaScript finds in its storages what they hold now.
pub(super) fn keep(
    scope: &v8::PinScope<'_, '_>,
    owner: InvocationId,
    work: LocalBoxFuture<'static, Settle>,
) -> LocalBoxFuture<'static, Settle> {
    let carried = scope.get_continuation_preserved_embedder_data();
    let Ok(both) = carried.try_cast::<v8::Array>() else { return work };
    let Some(stores) = both.get_index(scope, STORES).map(|stores| v8::Global::new(scope, stores)) else { return work };
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
