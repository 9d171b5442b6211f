//! The trait through which an embedder gives the engine its Web interfaces.

use std::rc::Rc;

use tenon_proto::runtime::Header;

use super::invocation::Attachment;
use super::snapshot::Builtins;
use super::state::State;

/// The Web interfaces that an engine's Workers use. The engine runs code and enforces its limits;
/// the interfaces provide the functions that the code can call.
pub trait Interfaces {
    /// Returns the built-in JavaScript and its native functions.
    fn builtins(&self) -> &'static Builtins;

    /// Stores the values that the native functions read in V8's data slots of a new isolate.
    fn initialize(&self, isolate: &mut v8::Isolate, state: &Rc<State>);

    /// Returns the state that an invocation keeps for another protocol, if the request switches to
    /// that protocol after its head. The bytes that follow the head are then no body.
    fn upgrade(&self, method: &str, headers: &[Header]) -> Option<Box<dyn Attachment>>;

    /// Ends the open connections of clients, such as WebSockets, and those that are opened from now
    /// on, because the node is leaving.
    fn leave(&self);
}
