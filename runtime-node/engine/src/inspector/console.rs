//! Reports calls of `console` to the clients of an inspector, which are debuggers, with the
//! arguments as objects.
//!
//! V8 gives every context a `console` that reports to clients. A realm replaces it with a `console`
//! that writes to the Worker's log ([`globals`](crate::globals)). In an isolate with an agent, each
//! method of the realm's `console` first calls the same method of V8's `console`.

use super::agent::Agent;
use crate::callbacks::{self, Callback, NativeFunction};

/// Makes the methods of a realm's `console` report their calls to clients. The caller calls this
/// before the realm replaces V8's `console`. Returns `None` if the heap is full.
///
/// # Arguments
/// * `internal` - the object `internal` of the built-in JavaScript.
pub(super) fn report_calls(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
) -> Option<()> {
    let key = v8::String::new(scope, "console")?.into();
    let global = scope.get_current_context().global(scope);
    let reporting: v8::Local<'_, v8::Object> = global.get(scope, key)?.try_into().ok()?;
    let logging: v8::Local<'_, v8::Object> = internal.get(scope, key)?.try_into().ok()?;
    let names = logging.get_own_property_names(scope, v8::GetPropertyNamesArgs::default())?;
    for i in 0..names.length() {
        let name = names.get_index(scope, i)?;
        let methods = (reporting.get(scope, name)?, logging.get(scope, name)?);
        if methods.0.is_function() && methods.1.is_function() {
            let data = v8::Array::new_with_elements(scope, &[methods.0, methods.1]);
            let method = v8::Function::builder(callbacks::on_call::<Both>)
                .data(data.into())
                .constructor_behavior(v8::ConstructorBehavior::Throw)
                .build(scope)?;
            method.set_name(name.to_string(scope)?);
            logging.set(scope, name, method.into())?;
        }
    }
    Some(())
}

/// A method that reports a call, and then logs it.
struct Both;

impl NativeFunction for Both {
    const CALLBACK: Callback = Callback::Console;

    fn call<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &v8::FunctionCallbackArguments<'s>,
    ) -> Option<v8::Local<'s, v8::Value>> {
        let methods: v8::Local<'_, v8::Array> = arguments.data().try_into().ok()?;
        let this = arguments.this().into();
        let values: Vec<_> = (0..arguments.length()).map(|i| arguments.get(i)).collect();
        let agent = Agent::of(scope)?;
        // The built-in JavaScript implements some methods by calling others, which are not
        // reported.
        let is_outer = !agent.is_logging.replace(true);
        if !is_outer {
            return call(scope, methods, 1, this, &values);
        }
        let reported = call(scope, methods, 0, this, &values);
        let logged = reported.and_then(|_| call(scope, methods, 1, this, &values));
        agent.is_logging.set(false);
        logged
    }
}

/// Calls one of two methods: V8's at index 0, the realm's at index 1.
fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    methods: v8::Local<'_, v8::Array>,
    index: u32,
    this: v8::Local<'_, v8::Value>,
    values: &[v8::Local<'_, v8::Value>],
) -> Option<v8::Local<'s, v8::Value>> {
    let method: v8::Local<'_, v8::Function> = methods.get_index(scope, index)?.try_into().ok()?;
    method.call(scope, this, values)
}
