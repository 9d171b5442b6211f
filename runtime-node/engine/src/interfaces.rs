//! The trait by which an embedder gives the engine its Web interfaces.

use std::rc::Rc;

use tenon_proto::runtime::Header;

use super::invocation::Attachment;
use super::snapshot::Builtins;
use super::state::State;

/// The Web interfaces that an engine's Workers use. The engine runs code and keeps it within its
/// limits; this provides the functions that the code can call.
pub trait Interfaces {
    /// Returns the built-in JavaScript and its native functions.
    fn builtins(&self) -> &'static Builtins;

    /// Fills the slots of a new isolate with the values that the native functions read from them.
    fn initialize(&self, isolate: &mut v8::Isolate, state: &Rc<State>);

    /// Recognises a request that switches to another protocol after its head. The bytes that
    /// follow are then no body. Returns what the invocation keeps for that protocol.
    fn upgrade(&self, method: &str, headers: &[Header]) -> Option<Box<dyn Attachment>>;

    /// Ends the connections that clients hold open, such as WebSockets, and those that they open
    /// from now on, because the node is leaving.
    fn leave(&self);
}
