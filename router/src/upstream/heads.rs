//! The head of a request, in the form that each kind of shard receives: a framed message for the
//! connection to a process, or a value for the shard of this thread. The message is made when an
//! attempt first needs it, and the value for each attempt.
//!
//! A head belongs to one thread.

use std::cell::OnceCell;

use bytes::Bytes;
use tenon_proto::invoke;
use tenon_proto::runtime::InvokeHead;

/// A head that can be made in both forms. Either form includes the body, unless the body streams.
pub(crate) trait Head {
    /// Returns the framed message.
    fn framed(&self) -> Bytes;

    /// Returns the value.
    fn value(&self) -> InvokeHead;
}

/// The head of one request, for all of its attempts.
pub(crate) struct Heads<'a> {
    head: &'a dyn Head,
    framed: OnceCell<Bytes>,
    stay: OnceCell<Bytes>,
}

impl<'a> Heads<'a> {
    pub(crate) fn new(head: &'a dyn Head) -> Self {
        Self { head, framed: OnceCell::new(), stay: OnceCell::new() }
    }

    /// Returns the framed message.
    ///
    /// # Arguments
    /// * `stays` - whether the lane that receives the request must run it.
    pub(crate) fn framed(&self, stays: bool) -> Bytes {
        let framed = self.framed.get_or_init(|| self.head.framed());
        let head = if stays { self.stay.get_or_init(|| invoke::with_stay(framed)) } else { framed };
        head.clone()
    }

    /// Returns the value. The shard of this thread is no lane, so the request need not stay.
    pub(crate) fn value(&self) -> InvokeHead {
        self.head.value()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tenon_proto::frame;
    use tenon_proto::runtime::{InvokeRequest, invoke_request::Part};

    use super::*;

    #[derive(Default)]
    struct Counted(Cell<u32>);

    impl Head for Counted {
        fn framed(&self) -> Bytes {
            self.0.set(self.0.get() + 1);
            frame::encode(&InvokeRequest { part: Some(Part::Head(InvokeHead::default())) })
        }

        fn value(&self) -> InvokeHead {
            InvokeHead::default()
        }
    }

    #[test]
    fn a_head_is_framed_once_for_all_attempts_and_not_at_all_for_this_thread() {
        let head = Counted::default();
        let heads = Heads::new(&head);
        heads.value();
        assert_eq!(head.0.get(), 0);
        assert_eq!(heads.framed(false), heads.framed(false));
        assert_ne!(heads.framed(true), heads.framed(false));
        assert_eq!(head.0.get(), 1);
    }
}
