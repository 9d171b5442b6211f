//! The results of ops.

use std::cmp::Ordering;
use std::marker::PhantomData;

use tenon_engine::ids::{InvocationId, OperationId};
use tenon_engine::streams::StreamId;
use tenon_engine::string::from_name;
use tenon_engine::thrown::Thrown;

/// The result of an op.
pub(crate) trait Returned<'s> {
    /// Returns the result to JavaScript, or throws it.
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>);
}

/// A value that can be converted to a JavaScript value.
pub(crate) trait ToValue<'s> {
    /// Converts the value. Returns `None` if V8 could not create the JavaScript value; an exception
    /// may then be pending.
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>>;
}

/// A value or `null`, whereas an `Option` is a value or `undefined`.
pub(crate) struct Nullable<T>(pub(crate) Option<T>);

/// A value that V8 creates; `None` if V8 has thrown an exception instead.
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

/// A promise of a `T`; `None` if V8 could not create the promise.
pub(crate) struct Promised<'s, T>(Option<v8::Local<'s, v8::Promise>>, PhantomData<T>);

impl<'s, T> From<Option<v8::Local<'s, v8::Promise>>> for Promised<'s, T> {
    fn from(promise: Option<v8::Local<'s, v8::Promise>>) -> Self {
        Self(promise, PhantomData)
    }
}

/// A `T`, or a promise of one.
pub(crate) struct MaybePromise<'s, T>(Option<v8::Local<'s, v8::Value>>, PhantomData<T>);

impl<'s, T> MaybePromise<'s, T> {
    /// Wraps a value that is available already.
    pub(crate) fn ready(value: v8::Local<'s, v8::Value>) -> Self {
        Self(Some(value), PhantomData)
    }

    /// Wraps the promise of a value that is not available yet.
    ///
    /// # Arguments
    /// * `promise` - `None` if V8 could not create the promise.
    pub(crate) fn pending(promise: Option<v8::Local<'s, v8::Promise>>) -> Self {
        Self(promise.map(Into::into), PhantomData)
    }
}

impl Returned<'_> for () {
    #[inline]
    fn set(self, _: &mut v8::PinScope<'_, '_>, _: &mut v8::ReturnValue<'_>) {}
}

/// Returns -1, 0 or 1 to JavaScript.
impl Returned<'_> for Ordering {
    #[inline]
    fn set(self, _: &mut v8::PinScope<'_, '_>, result: &mut v8::ReturnValue<'_>) {
        result.set_int32(self as i32);
    }
}

/// Throws the exception of an error.
impl<'s, R: Returned<'s>> Returned<'s> for Result<R, Thrown> {
    #[inline]
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        match self {
            Ok(returned) => returned.set(scope, result),
            Err(thrown) => thrown.throw(scope),
        }
    }
}

/// A value, or `undefined`.
impl<'s, R: Returned<'s>> Returned<'s> for Option<R> {
    #[inline]
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        if let Some(returned) = self {
            returned.set(scope, result);
        }
    }
}

impl<'s, R: Returned<'s>> Returned<'s> for Maybe<R> {
    #[inline]
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        self.0.set(scope, result);
    }
}

impl<'s, R: Returned<'s>> Returned<'s> for Nullable<R> {
    #[inline]
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        match self.0 {
            Some(returned) => returned.set(scope, result),
            None => result.set_null(),
        }
    }
}

/// Implements [`ToValue`], and [`Returned`] with a method of [`v8::ReturnValue`].
macro_rules! primitives {
    ($($type:ty, $value:ident => $set:ident($returned:expr), $make:expr;)+) => {$(
        impl Returned<'_> for $type {
            #[inline]
            fn set(self, _: &mut v8::PinScope<'_, '_>, result: &mut v8::ReturnValue<'_>) {
                let $value = self;
                result.$set($returned);
            }
        }

        impl<'s> ToValue<'s> for $type {
            fn to_value(
                self,
                scope: &mut v8::PinScope<'s, '_>,
            ) -> Option<v8::Local<'s, v8::Value>> {
                let $value = self;
                Some($make(scope, $returned).into())
            }
        }
    )+};
}
primitives! {
    bool, boolean => set_bool(boolean), v8::Boolean::new;
    i32, number => set_int32(number), v8::Integer::new;
    u32, number => set_uint32(number), v8::Integer::new_from_unsigned;
    f64, number => set_double(number), v8::Number::new;
    // Lengths are less than 2⁵³.
    usize, number => set_double(number as f64), v8::Number::new;
    InvocationId, id => set_double(id.to_number()), v8::Number::new;
    OperationId, id => set_double(id.to_number()), v8::Number::new;
    StreamId, id => set_double(id.to_number()), v8::Number::new;
}

/// Implements [`Returned`] through [`ToValue`]. If V8 could not create the value, the op returns
/// `undefined`, or throws the pending exception.
macro_rules! values {
    ($([$($parameter:ident)?] $type:ty),+ $(,)?) => {$(
        impl<'s $(, $parameter)?> Returned<'s> for $type
        where
            Self: ToValue<'s>,
        {
            #[inline]
            fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
                if let Some(value) = self.to_value(scope) {
                    result.set(value);
                }
            }
        }
    )+};
}
values!([] String, [] &str, [T] v8::Local<'s, T>, [T] Vec<T>, [T] Promised<'s, T>, [T] MaybePromise<'s, T>);

impl<'s> ToValue<'s> for String {
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        self.as_str().to_value(scope)
    }
}

impl<'s> ToValue<'s> for &str {
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        v8::String::new(scope, self).map(Into::into)
    }
}

impl<'s, T> ToValue<'s> for v8::Local<'s, T>
where
    Self: Into<v8::Local<'s, v8::Value>>,
{
    #[inline]
    fn to_value(self, _: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        Some(self.into())
    }
}

impl<'s, T> ToValue<'s> for Promised<'s, T> {
    #[inline]
    fn to_value(self, _: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        self.0.map(Into::into)
    }
}

impl<'s, T> ToValue<'s> for MaybePromise<'s, T> {
    #[inline]
    fn to_value(self, _: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        self.0
    }
}

/// A value, or `undefined`.
impl<'s, T: ToValue<'s>> ToValue<'s> for Option<T> {
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        match self {
            Some(value) => value.to_value(scope),
            None => Some(v8::undefined(scope).into()),
        }
    }
}

impl<'s, T: ToValue<'s>> ToValue<'s> for Nullable<T> {
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        match self.0 {
            Some(value) => value.to_value(scope),
            None => Some(v8::null(scope).into()),
        }
    }
}

/// An array.
impl<'s, T: ToValue<'s>> ToValue<'s> for Vec<T> {
    fn to_value(self, scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Value>> {
        let elements: Option<Vec<_>> =
            self.into_iter().map(|element| element.to_value(scope)).collect();
        Some(v8::Array::new_with_elements(scope, &elements?).into())
    }
}

/// Creates an object without a prototype, so that resolving a promise with the object cannot call a
/// Worker's `then`. Returns `None` if V8 could not create a name.
pub(crate) fn record<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    names: &[&str],
    values: &[v8::Local<'s, v8::Value>],
) -> Option<v8::Local<'s, v8::Value>> {
    let names: Option<Vec<v8::Local<'s, v8::Name>>> =
        names.iter().map(|name| from_name(scope, name).map(Into::into)).collect();
    let nothing = v8::null(scope).into();
    Some(v8::Object::with_prototype_and_properties(scope, nothing, &names?, values).into())
}
