//! The arguments of ops.

use tenon_engine::ids::{InvocationId, OperationId};
use tenon_engine::streams::StreamId;
use tenon_engine::thrown::Thrown;

/// The arguments of a call that have not been taken yet.
pub(crate) struct Arguments<'s> {
    all: v8::FunctionCallbackArguments<'s>,
    next: i32,
}

impl<'s> Arguments<'s> {
    pub(crate) fn new(all: v8::FunctionCallbackArguments<'s>) -> Self {
        Self { all, next: 0 }
    }

    /// Returns the next argument; `undefined` after the last.
    pub(crate) fn next(&mut self) -> v8::Local<'s, v8::Value> {
        self.next += 1;
        self.all.get(self.next - 1)
    }

    /// Returns the next argument without taking it.
    pub(crate) fn peek(&self) -> v8::Local<'s, v8::Value> {
        self.all.get(self.next)
    }

    /// Takes the arguments that an `A` consists of.
    ///
    /// # Errors
    /// Returns the exception for an argument that cannot be converted.
    #[inline]
    pub(crate) fn take<A: Argument<'s>>(
        &mut self,
        scope: &mut v8::PinScope<'s, '_>,
    ) -> Result<A, Thrown> {
        A::take(scope, self)
    }
}

/// A value that JavaScript passes as one argument or as several arguments.
pub(crate) trait Argument<'s>: Sized {
    /// Takes the value from the next argument, or from the next arguments if it consists of
    /// several.
    ///
    /// # Errors
    /// Returns a `TypeError` for a value of another type, and any other exception of the
    /// conversion.
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown>;
}

/// A V8 value, which is not copied.
impl<'s, T> Argument<'s> for v8::Local<'s, T>
where
    v8::Local<'s, v8::Value>: TryInto<Self>,
{
    #[inline]
    fn take(_: &mut v8::PinScope<'s, '_>, arguments: &mut Arguments<'s>) -> Result<Self, Thrown> {
        arguments.next().try_into().map_err(|_| wrong_type(arguments))
    }
}

/// A copy of a string; lone surrogates become U+FFFD.
impl<'s> Argument<'s> for String {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let string: v8::Local<'_, v8::String> = arguments.take(scope)?;
        Ok(string.to_rust_string_lossy(scope))
    }
}

/// A value that may be `undefined` or `null`.
impl<'s, A: Argument<'s>> Argument<'s> for Option<A> {
    #[inline]
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        if arguments.peek().is_null_or_undefined() {
            arguments.next += 1;
            return Ok(None);
        }
        A::take(scope, arguments).map(Some)
    }
}

/// Two or more arguments that belong together.
impl<'s, A: Argument<'s>, B: Argument<'s>> Argument<'s> for (A, B) {
    #[inline]
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        Ok((A::take(scope, arguments)?, B::take(scope, arguments)?))
    }
}

impl<'s> Argument<'s> for bool {
    #[inline]
    fn take(_: &mut v8::PinScope<'s, '_>, arguments: &mut Arguments<'s>) -> Result<Self, Thrown> {
        Ok(arguments.next().is_true())
    }
}

/// An integer, modulo 2³².
impl<'s> Argument<'s> for u32 {
    #[inline]
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        Ok(arguments.next().uint32_value(scope).unwrap_or_default())
    }
}

/// A number; 0 for a value that cannot be converted to one.
impl<'s> Argument<'s> for f64 {
    #[inline]
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        Ok(arguments.next().number_value(scope).unwrap_or_default())
    }
}

/// A non-negative integer, exact up to 2⁵³; negative numbers become 0.
impl<'s> Argument<'s> for usize {
    #[inline]
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        f64::take(scope, arguments).map(|number| number as Self)
    }
}

/// Implements [`Argument`] for ids, which JavaScript holds as numbers.
macro_rules! ids {
    ($($id:ty),+) => {$(
        impl<'s> Argument<'s> for $id {
            #[inline]
            fn take(
                scope: &mut v8::PinScope<'s, '_>,
                arguments: &mut Arguments<'s>,
            ) -> Result<Self, Thrown> {
                f64::take(scope, arguments).map(Self::from_number)
            }
        }
    )+};
}
ids!(InvocationId, OperationId, StreamId);

fn wrong_type(arguments: &Arguments<'_>) -> Thrown {
    let position = arguments.next;
    Thrown::type_error(format!("Argument {position} of an op has the wrong type"))
}
