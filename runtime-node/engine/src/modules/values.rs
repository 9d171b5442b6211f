//! Makes modules that are not JavaScript. Their only export is the default one, a value that is
//! made from their content.
//!
//! The value is made when the module is evaluated, once per realm. A revision's content is bounded,
//! and so is each step of this work: text and bytes are copied, and JSON is parsed from within
//! JavaScript, where an exceeded limit takes effect.

use std::rc::Rc;

use tenon_proto::module::Form;
use tenon_proto::revision::Revision;

use super::text::text;
use crate::callbacks::{self, Callback, SyntheticModule};
use crate::collection::make_room;
use crate::realm::Realm;
use crate::slot::slot_value;
use crate::string::array_of;
use crate::thrown::Thrown;
use crate::wasm;

/// The byte order mark with which some editors begin a UTF-8 file. It is not part of the text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Makes the module with this name, without evaluating it.
pub(super) fn module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: &str,
) -> Option<v8::Local<'s, v8::Module>> {
    let name = v8::String::new(scope, name)?;
    let default = v8::String::new(scope, "default")?;
    Some(v8::Module::create_synthetic_module(
        scope,
        name,
        &[default],
        callbacks::on_evaluate::<Value>,
    ))
}

/// The modules that are values.
struct Value;

impl SyntheticModule for Value {
    const CALLBACK: Callback = Callback::Value;

    /// Sets the module's default export.
    fn evaluate<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        module: v8::Local<'s, v8::Module>,
    ) -> Option<v8::Local<'s, v8::Value>> {
        let value = value(scope, module)?;
        let default = v8::String::new(scope, "default")?;
        module.set_synthetic_module_export(scope, default, value)?;
        let evaluated = v8::PromiseResolver::new(scope)?;
        let nothing = v8::undefined(scope);
        evaluated.resolve(scope, nothing.into())?;
        Some(evaluated.get_promise(scope).into())
    }
}

/// Returns the module's value. Throws if the value cannot be created.
fn value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    let realm = Realm::current(scope)?;
    let revision = slot_value::<Rc<Revision>>(scope);
    let modules = realm.modules.borrow();
    let content =
        modules.key_of(module).and_then(|key| Some((key.form, revision.modules.get(&key.name)?)));
    let (form, content) =
        content.expect("the evaluated module is not in the table, or not in the revision");
    drop(modules);
    match form {
        Form::Code | Form::Builtin => {
            unreachable!("a module of the form {form:?} is not a value")
        }
        Form::Text => Some(string(scope, content)?.into()),
        Form::Json => {
            let parse = v8::Local::new(scope, &realm.hooks.json);
            let (undefined, text) = (v8::undefined(scope).into(), string(scope, content)?.into());
            parse.call(scope, undefined, &[text])
        }
        Form::Bytes => Some(bytes(scope, content)?.into()),
        Form::WebAssembly => wasm::module(scope, &realm, content),
        Form::Buffer => Some(bytes(scope, content)?.buffer(scope)?.into()),
    }
}

fn string<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    content: &[u8],
) -> Option<v8::Local<'s, v8::String>> {
    let string = text(scope, content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content));
    if string.is_none() {
        Thrown::type_error("A module is too large").throw(scope);
    }
    string
}

fn bytes<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    content: &[u8],
) -> Option<v8::Local<'s, v8::Uint8Array>> {
    let counted =
        make_room(scope, content.len()).and_then(|buffers| buffers.count(content.to_vec()));
    if counted.is_none() {
        Thrown::type_error("A module does not fit into the Worker's memory").throw(scope);
    }
    array_of(scope, counted?)
}
