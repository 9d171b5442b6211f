//! Resolves names to the addresses to which a socket would connect.

use std::rc::Rc;

use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;
use url::Host;

use super::{host_text, not_a_host, not_current};
use crate::fetch::head;
use crate::fetch::outbound::Outbound;
use crate::ops::{Promised, ToValue as _};

/// The type of a query's outcome, which is `string[] | Failed` in TypeScript. It has no values.
pub(crate) enum Resolved {}

/// Resolves a host. Returns a promise of the addresses that the Worker may reach, or of the
/// failure.
///
/// # Errors
/// Returns a `TypeError` if the host is neither a name nor an address, or if no invocation is
/// running.
#[op]
pub(crate) fn dns_resolve<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    host: v8::Local<'s, v8::String>,
) -> Result<Promised<'s, Resolved>, Thrown> {
    let host = host_text(scope, host)?;
    let host = Host::parse(&host).map_err(|_| not_a_host(&host))?;
    let (state, outbound) = (State::of(scope), Outbound::of(scope));
    let owner = state.current(scope).ok_or_else(not_current)?;
    let context = outbound.egress_context(&state, owner);
    let client = Rc::clone(&outbound.client);
    let work = async move { Ok(client.resolve(&context, host).await) };
    let promise = promise(scope, work, |scope, resolved| match resolved {
        Ok(addresses) => {
            let texts = addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
            texts.to_value(scope).ok_or_else(out_of_memory)
        }
        Err(error) => head::failure(scope, error.stage().as_str(), &error.to_string()),
    });
    Ok(promise.into())
}
