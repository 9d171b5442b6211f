//! The native half of `htmlrewriter.js`: documents that are rewritten piece by piece.
//!
//! ```text
//!  rewriterOpen ─► rewriterNext ─┬─► rewriterFeed, rewriterEnd     the document
//!                     ▲          ├─► rewriterTake                  the output
//!                     │          ├─► a handler, which calls the ops of `token_ops.rs`
//!                     └──────────┴─► rewriterInsert…               a stream within the output
//! ```
//!
//! - [`Rewriter`]: the order of these steps, in a separate crate that does not depend on V8.
//! - [`token_ops`]: the current token, whose handlers are running.
//!
//! No op calls a handler, and each op does a bounded amount of work, so that a Worker can be
//! stopped between two ops. The memory of a rewriter is charged to the Worker after each op. A
//! rewriter that does not fit is dropped: its document then ends with an error.

pub(crate) mod token_ops;

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tenon_engine::bytes;
use tenon_engine::collection::{buffers, make_room};
use tenon_engine::heap::Charge;
use tenon_engine::slot::slot;
use tenon_engine::string::array_of;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_html::{Handlers, Rewriter, Step, check_selector};
use tenon_op::op;

use crate::ops::{Argument, Arguments, Maybe, View};

/// The maximum number of bytes of a stream that are inserted at a time.
const MAX_INSERTED: usize = 16 << 10;

/// The unit in which memory is charged, in bytes.
const UNIT: usize = 4 << 10;

/// An isolate's rewriters, by number. Numbers are not reused.
#[derive(Default)]
struct Rewriters {
    last: u32,
    open: FxHashMap<u32, Rc<RefCell<Open>>>,
}

struct Open {
    rewriter: Rewriter,
    charge: Charge,
}

impl Open {
    /// Charges the current memory of the rewriter. Returns whether it fits.
    fn charge(&mut self, scope: &mut v8::PinScope<'_, '_>) -> bool {
        let memory = self.rewriter.memory().next_multiple_of(UNIT);
        let more = memory.saturating_sub(self.charge.bytes());
        if more == 0 {
            self.charge.shrink_to(memory);
            return true;
        }
        make_room(scope, more).is_some() && self.charge.grow(more)
    }
}

/// Calls `work` with a rewriter, and charges its memory.
///
/// # Errors
/// Fails if the rewriter is closed or `work` fails. If there is not enough memory, drops the
/// rewriter and fails.
fn with_rewriter<R>(
    scope: &mut v8::PinScope<'_, '_>,
    number: u32,
    work: impl FnOnce(&mut Rewriter) -> Result<R, Thrown>,
) -> Result<R, Thrown> {
    let closed = || Thrown::type_error("HTMLRewriter: the rewriting has ended");
    let open = slot::<Rewriters>(scope).open.get(&number).cloned().ok_or_else(closed)?;
    let mut open = open.borrow_mut();
    let result = work(&mut open.rewriter)?;
    if !open.charge(scope) {
        slot::<Rewriters>(scope).open.remove(&number);
        return Err(out_of_memory());
    }
    Ok(result)
}

fn refused(error: impl std::fmt::Display) -> Thrown {
    Thrown::type_error(format!("HTMLRewriter: {error}"))
}

/// The handlers of all registrations.
pub(crate) struct HandlerList(Vec<Handlers>);

/// Takes a flat array with two elements for each registration: its selector or null, and the kinds
/// of its handlers as a sum of 1, 2, 4 and 8.
impl<'s> Argument<'s> for HandlerList {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let list: v8::Local<'_, v8::Array> = arguments.take(scope)?;
        let handlers = (0..list.length() / 2).filter_map(|index| {
            let selector = list.get_index(scope, 2 * index)?.try_cast::<v8::String>().ok();
            let kinds = list.get_index(scope, 2 * index + 1)?.uint32_value(scope)?;
            Some(Handlers {
                selector: selector.map(|selector| selector.to_rust_string_lossy(scope)),
                element: kinds & 1 != 0,
                comments: kinds & 2 != 0,
                text: kinds & 4 != 0,
                end: kinds & 8 != 0,
            })
        });
        Ok(Self(handlers.collect()))
    }
}

/// Checks a selector.
///
/// # Errors
/// Returns a `TypeError` if the selector is malformed, too complex, or not supported.
#[op]
pub(crate) fn rewriter_selector(selector: String) -> Result<(), Thrown> {
    check_selector(&selector).map_err(refused)
}

/// Opens a rewriter for a document in the encoding with this label. Returns its number.
///
/// # Errors
/// Returns a `TypeError` if the encoding is not supported or if there are too many selectors, and a
/// `RangeError` if there is not enough memory.
#[op]
pub(crate) fn rewriter_open(
    scope: &mut v8::PinScope<'_, '_>,
    handlers: HandlerList,
    encoding: String,
) -> Result<u32, Thrown> {
    let rewriter = Rewriter::new(&handlers.0, &encoding).map_err(refused)?;
    let charge = buffers(scope).charge(0).ok_or_else(out_of_memory)?;
    let mut open = Open { rewriter, charge };
    if !open.charge(scope) {
        return Err(out_of_memory());
    }
    let rewriters = slot::<Rewriters>(scope);
    rewriters.last += 1;
    rewriters.open.insert(rewriters.last, Rc::new(RefCell::new(open)));
    Ok(rewriters.last)
}

/// Drops a rewriter.
#[op]
pub(crate) fn rewriter_close(scope: &mut v8::PinScope<'_, '_>, rewriter: u32) {
    slot::<Rewriters>(scope).open.remove(&rewriter);
}

/// Returns the next step: its kind, plus 16 times the number of a registration, an element or a
/// stream.
///
/// # Errors
/// Returns a `TypeError` if the document cannot be parsed.
#[op]
pub(crate) fn rewriter_next(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<f64, Thrown> {
    let step = with_rewriter(scope, rewriter, |rewriter| rewriter.next_step().map_err(refused))?;
    let (kind, number) = match step {
        Step::Input => (0, 0),
        Step::Output => (1, 0),
        Step::Done => (2, 0),
        Step::Stream(stream) => (3, stream),
        Step::Element(registration) => (4, registration),
        Step::EndTag(element) => (5, element.0),
        Step::Comment(registration) => (6, registration),
        Step::Text(registration) => (7, registration),
        Step::Doctype(registration) => (8, registration),
        Step::End(registration) => (9, registration),
    };
    Ok(f64::from(kind) + 16.0 * f64::from(number))
}

/// Feeds the bytes after the first `from` to a rewriter, or as many as it takes at a time. Returns
/// their number.
#[op]
pub(crate) fn rewriter_feed(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    bytes: View<'_>,
    from: usize,
) -> Result<usize, Thrown> {
    with_rewriter(scope, rewriter, |rewriter| {
        Ok(bytes::read(bytes, |bytes| rewriter.feed(bytes.get(from..).unwrap_or_default())))
    })
}

/// Ends the document.
#[op]
pub(crate) fn rewriter_end(scope: &mut v8::PinScope<'_, '_>, rewriter: u32) -> Result<(), Thrown> {
    with_rewriter(scope, rewriter, |rewriter| {
        rewriter.end();
        Ok(())
    })
}

/// Takes the output of a rewriter; `undefined` if there is none.
#[op]
pub(crate) fn rewriter_take<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    rewriter: u32,
) -> Result<Option<Maybe<v8::Local<'s, v8::Uint8Array>>>, Thrown> {
    let output = with_rewriter(scope, rewriter, |rewriter| Ok(rewriter.take_output()))?;
    if output.is_empty() {
        return Ok(None);
    }
    let counted = make_room(scope, output.len()).and_then(|buffers| buffers.count(output));
    Ok(Some(Maybe(array_of(scope, counted.ok_or_else(out_of_memory)?))))
}

/// Returns whether the result of a handler is a promise that is not settled.
#[op]
pub(crate) fn is_pending(result: v8::Local<'_, v8::Value>) -> bool {
    result
        .try_cast::<v8::Promise>()
        .is_ok_and(|promise| promise.state() == v8::PromiseState::Pending)
}

/// Inserts a piece of the stream of the last step: the bytes after the first `from`, or as many of
/// them as are inserted at a time. Returns their number.
///
/// # Errors
/// Returns a `TypeError` if the bytes are not UTF-8.
#[op]
pub(crate) fn rewriter_insert_bytes(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    bytes: View<'_>,
    from: usize,
) -> Result<usize, Thrown> {
    with_rewriter(scope, rewriter, |rewriter| {
        bytes::read(bytes, |bytes| {
            let bytes = bytes.get(from..).unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(MAX_INSERTED)];
            rewriter.insert_bytes(bytes).map_err(refused)?;
            Ok(bytes.len())
        })
    })
}

/// Ends the stream of the last step.
///
/// # Errors
/// Returns a `TypeError` if the stream ends within a character.
#[op]
pub(crate) fn rewriter_end_stream(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<(), Thrown> {
    with_rewriter(scope, rewriter, |rewriter| rewriter.end_stream().map_err(refused))
}
