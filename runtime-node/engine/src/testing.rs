//! Interfaces for the tests of this crate: the minimum of JavaScript with which a Worker can start.

use std::rc::Rc;
use std::sync::OnceLock;

use tenon_proto::runtime::Header;
use v8::MapFnTo as _;

use crate::callbacks::{Callback, contain};
use crate::code_range;
use crate::exception::Exception;
use crate::ids::InvocationId;
use crate::snapshot::make::{Source, When, snapshot};
use crate::snapshot::{Builtins, References};
use crate::state::State;
use crate::{Attachment, FetchResponse, Interfaces, Piece, ResponseBody, modules};

/// The names of the native functions, in the order in which `functions` returns the functions.
const NAMES: &[&str] = &["done", "fail", "evaluateModule", "operate"];

const HOOKS: &str = "(function (internal) {
  const { ops } = internal;
  const hooks = { __proto__: null };
  for (const name of [
    'bind', 'fetch', 'rpc', 'scheduled', 'json', 'wasm', 'stacks', 'exception', 'rejection',
  ]) {
    hooks[name] = () => {};
  }
  hooks.start = async (id, evaluation, namespace) => {
    try {
      await evaluation;
      ops.done(id);
    } catch (error) {
      ops.fail(id, error);
    }
  };
  hooks.import = async (specifier, referrer, attributes) => {
    const [evaluation, namespace] = ops.evaluateModule(specifier, referrer, attributes);
    await evaluation;
    return namespace;
  };
  hooks.lazy = () => ({});
  hooks.builtin = () => ['default', {}];
  globalThis.operate = ops.operate;
  internal.hooks = hooks;
  internal.files = internal.lazies = { __proto__: null };
  internal.primordials = { __proto__: null };
})";

/// Interfaces that offer a Worker nothing but `operate`, which does nothing.
pub(crate) struct NoInterfaces;

impl Interfaces for NoInterfaces {
    fn builtins(&self) -> &'static Builtins {
        builtins()
    }

    fn initialize(&self, _: &mut v8::Isolate, _: &Rc<State>) {}

    fn upgrade(&self, _: &str, _: &[Header]) -> Option<Box<dyn Attachment>> {
        None
    }

    fn leave(&self) {}
}

/// Returns the snapshot of [`HOOKS`]. V8 must have been initialized.
pub(crate) fn builtins() -> &'static Builtins {
    static BUILTINS: OnceLock<Builtins> = OnceLock::new();
    BUILTINS.get_or_init(|| {
        let sources = [Source::new("hooks.js", When::Eager, HOOKS)];
        let blob = code_range::while_making(|| snapshot(&sources, NAMES))
            .expect("the hooks cannot be evaluated");
        Builtins {
            blob: Vec::leak(blob.to_vec()),
            sources: std::slice::from_ref(sources[0].text),
            late: &[],
            functions,
            references: References::new(),
        }
    })
}

fn functions() -> Vec<v8::FunctionCallback> {
    fn invocation(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> InvocationId {
        InvocationId::from_number(value.number_value(scope).unwrap_or_default())
    }
    fn done(
        scope: &mut v8::PinScope<'_, '_>,
        args: v8::FunctionCallbackArguments<'_>,
        _: v8::ReturnValue<'_>,
    ) {
        let id = invocation(scope, args.get(0));
        let nothing = FetchResponse {
            status: 0,
            headers: Vec::new(),
            body: ResponseBody::Full(Piece::default()),
        };
        State::of(scope).set_outcome(id, Ok(nothing));
    }
    fn fail<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        args: v8::FunctionCallbackArguments<'s>,
        _: v8::ReturnValue<'_>,
    ) {
        let id = invocation(scope, args.get(0));
        let exception = Exception::describe(scope, args.get(1));
        State::of(scope).threw(id, &exception);
    }
    fn evaluate_module<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        args: v8::FunctionCallbackArguments<'s>,
        mut result: v8::ReturnValue<'_>,
    ) {
        let Ok(specifier) = args.get(0).try_cast() else { return };
        let referrer = args.get(1).to_rust_string_lossy(scope);
        if let Some((evaluation, namespace)) =
            modules::import(scope, specifier, &referrer, args.get(2))
        {
            result.set(v8::Array::new_with_elements(scope, &[evaluation, namespace]).into());
        }
    }
    fn operate(
        scope: &mut v8::PinScope<'_, '_>,
        _: v8::FunctionCallbackArguments<'_>,
        _: v8::ReturnValue<'_>,
    ) {
        let _ = contain(scope, Callback::Op, |_| ());
    }
    vec![done.map_fn_to(), fail.map_fn_to(), evaluate_module.map_fn_to(), operate.map_fn_to()]
}
