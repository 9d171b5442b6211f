//! The macros of ops, the native functions that the built-in JavaScript calls.
//!
//! ```text
//!  internal.ops.timerClear(timer)
//!      └─► timer_clear::callback ─► Argument::take, for each parameter
//!                                      └─► fn timer_clear(scope, timer: OperationId) -> R
//!                                             └─► Returned::set
//! ```
//!
//! The module `tenon_web::ops` defines and explains the traits. The types of an op are stated once,
//! in its Rust signature: `build.rs` finds the ops by the attribute, and `types/check.mjs`
//! translates their signatures to TypeScript.

mod camel;

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Fields, FnArg, ItemFn, Pat, Result, parse_macro_input};

use camel::camel;

/// Makes a function an op: JavaScript calls it under its name in camel case.
///
/// If the first parameter is named `scope` or `_scope`, it is the scope of the call. Every other
/// parameter implements `ops::Argument`, and the result implements `ops::Returned`.
#[proc_macro_attribute]
pub fn op(attribute: TokenStream, item: TokenStream) -> TokenStream {
    if !attribute.is_empty() {
        let error = Error::new(proc_macro2::Span::call_site(), "`#[op]` takes no arguments");
        return error.into_compile_error().into();
    }
    let function = parse_macro_input!(item as ItemFn);
    expand(&function).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(function: &ItemFn) -> Result<proc_macro2::TokenStream> {
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let mut parameters = function.sig.inputs.iter().peekable();
    let scope = parameters.next_if(|parameter| is_scope(parameter)).map(|_| quote!(scope,));
    let arguments = parameters
        .enumerate()
        .map(|(position, parameter)| match parameter {
            FnArg::Typed(_) => Ok(format_ident!("argument_{position}")),
            FnArg::Receiver(receiver) => {
                Err(Error::new(receiver.span(), "an op must be a free function"))
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let documentation = format!(" The op [`{name}`](fn@{name}).");
    Ok(quote! {
        // JavaScript passes arguments one by one: an object would cost a lookup for each argument.
        #[allow(clippy::too_many_arguments)]
        #function

        #[doc = #documentation]
        #visibility mod #name {
            /// Returns the function that V8 calls.
            pub(crate) fn callback() -> ::v8::FunctionCallback {
                use ::v8::MapFnTo as _;
                fn call<'s>(
                    scope: &mut ::v8::PinScope<'s, '_>,
                    arguments: ::v8::FunctionCallbackArguments<'s>,
                    result: ::v8::ReturnValue<'s>,
                ) {
                    crate::ops::call(scope, arguments, result, |scope, arguments| {
                        #(let #arguments = arguments.take(scope)?;)*
                        ::core::result::Result::Ok(super::#name(#scope #(#arguments),*))
                    });
                }
                call.map_fn_to()
            }
        }
    })
}

fn is_scope(parameter: &FnArg) -> bool {
    let FnArg::Typed(parameter) = parameter else { return false };
    matches!(&*parameter.pat, Pat::Ident(name) if name.ident == "scope" || name.ident == "_scope")
}

/// Derives the conversion of a struct to a JavaScript object without a prototype, whose properties
/// are the struct's fields, named in camel case. In TypeScript, the object's type has the name of
/// the struct. The struct's only parameter may be the lifetime `'s` of the call's scope.
#[proc_macro_derive(Record)]
pub fn record(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    expand_record(&item).unwrap_or_else(Error::into_compile_error).into()
}

fn expand_record(item: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &item.data else {
        return Err(Error::new(item.span(), "only a struct can be a record"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(item.span(), "the fields of a record need names"));
    };
    let fields = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect::<Vec<_>>();
    let names = fields.iter().map(|field| camel(&field.to_string()));
    let (name, generics) = (&item.ident, &item.generics);
    Ok(quote! {
        impl<'s> crate::ops::ToValue<'s> for #name #generics {
            fn to_value(
                self,
                scope: &mut ::v8::PinScope<'s, '_>,
            ) -> ::core::option::Option<::v8::Local<'s, ::v8::Value>> {
                let values = [#(crate::ops::ToValue::to_value(self.#fields, scope)?),*];
                crate::ops::record(scope, &[#(#names),*], &values)
            }
        }

        impl<'s> crate::ops::Returned<'s> for #name #generics {
            fn set(
                self,
                scope: &mut ::v8::PinScope<'s, '_>,
                result: &mut ::v8::ReturnValue<'s>,
            ) {
                if let ::core::option::Option::Some(value) =
                    crate::ops::ToValue::to_value(self, scope)
                {
                    result.set(value);
                }
            }
        }
    })
}
