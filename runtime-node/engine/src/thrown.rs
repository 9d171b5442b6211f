//! The exceptions of native functions.

use std::borrow::Cow;

use super::pipe::ReaderDropped;
use super::realm::Realm;

/// An exception that a native function throws, or with which the function rejects its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thrown {
    /// A `TypeError`.
    Type(Cow<'static, str>),
    /// A `RangeError`.
    Range(Cow<'static, str>),
    /// A `DOMException`, with its name and its message.
    Dom(&'static str, Cow<'static, str>),
}

impl Thrown {
    pub fn type_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Type(message.into())
    }

    pub fn range_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Range(message.into())
    }

    /// Returns a `DOMException`.
    ///
    /// # Arguments
    /// * `name` - a name that Web IDL lists: `OperationError`, `DataError`, …
    pub fn dom(name: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Dom(name, message.into())
    }

    /// Returns the exception for JavaScript. Returns `None` if the exception cannot be constructed,
    /// for example because its construction threw another one.
    pub(crate) fn value<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
    ) -> Option<v8::Local<'s, v8::Value>> {
        let (Self::Type(message) | Self::Range(message) | Self::Dom(_, message)) = self;
        let message = v8::String::new(scope, message)?;
        Some(match self {
            Self::Type(_) => v8::Exception::type_error(scope, message),
            Self::Range(_) => v8::Exception::range_error(scope, message),
            Self::Dom(name, _) => {
                let name = v8::String::new(scope, name)?;
                let realm = Realm::current(scope)?;
                let exception = v8::Local::new(scope, &realm.hooks.exception);
                let undefined = v8::undefined(scope).into();
                exception.call(scope, undefined, &[name.into(), message.into()])?
            }
        })
    }

    /// Throws the exception from the running function.
    pub fn throw(&self, scope: &mut v8::PinScope<'_, '_>) {
        if let Some(exception) = self.value(scope) {
            scope.throw_exception(exception);
        }
    }
}

impl From<ReaderDropped> for Thrown {
    fn from(dropped: ReaderDropped) -> Self {
        Self::type_error(dropped.to_string())
    }
}

/// Returns the exception for an allocation that does not fit into the isolate's memory.
pub fn out_of_memory() -> Thrown {
    Thrown::range_error("The data does not fit into the Worker's memory")
}
