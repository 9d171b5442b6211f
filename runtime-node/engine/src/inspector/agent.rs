//! The isolate's side of the inspector protocol: V8's inspector, with a session for each client.
//!
//! ```text
//!              ┌─ no code runs: in a separate turn
//!  commands ───┼─ code runs: in an interrupt
//!              └─ code is paused: in a loop within V8's call, which blocks the thread
//! ```
//!
//! Each way may be nested in another one, because code that a client evaluates can pause again.
//! Therefore no borrow is held while V8 runs, and a session lives until V8 has returned from it,
//! even if its client leaves earlier.

#![allow(unsafe_code)] // Makes scopes where V8 calls back without one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use v8::inspector::{
    Channel, ChannelImpl, StringBuffer, StringView, V8Inspector, V8InspectorClient,
    V8InspectorClientImpl, V8InspectorClientTrustLevel, V8InspectorSession,
};

use super::client::{ClientId, Outbox};
use super::console;
use super::target::{Command, InboxItem, Script, Target};
use crate::heap::HeapGuard;
use crate::watchdog::TurnTimer;

/// The number of the only group of an isolate's contexts, to which all sessions belong.
const GROUP: i32 = 1;

/// The data that marks a context as the one in which clients evaluate by default.
const DEFAULT_CONTEXT: &[u8] = br#"{"isDefault":true}"#;

/// The inspector of one isolate. It lives in a slot of the isolate, and belongs to its thread.
pub(crate) struct Agent {
    target: Arc<Target>,
    /// The isolate's number as a receiver of the target.
    number: u64,
    has_commands: Arc<Notify>,
    isolate: v8::UnsafeRawIsolatePtr,
    /// `None` once the agent has been closed.
    inspector: RefCell<Option<Rc<V8Inspector>>>,
    sessions: RefCell<BTreeMap<ClientId, Rc<V8InspectorSession>>>,
    /// The context in which clients evaluate by default.
    context: RefCell<Option<v8::Global<v8::Context>>>,
    is_paused: Cell<bool>,
    /// Whether a call of `console` is being reported.
    pub(super) is_logging: Cell<bool>,
    /// Whether the isolate has to wait for a client before it runs code.
    waits: Cell<bool>,
    /// Whether the code that runs next has to pause at its first statement.
    breaks_on_start: Cell<bool>,
    may_run: Notify,
    guard: Rc<HeapGuard>,
    timer: Arc<TurnTimer>,
    /// The CPU limit that applies to a running turn when the last client has left.
    limit: Duration,
}

impl Agent {
    /// Makes the agent of an isolate that has been entered, and puts the agent in a slot of the
    /// isolate.
    ///
    /// # Arguments
    /// * `waits` - whether the isolate waits for a client before it runs code.
    /// * `guard` - the guard of the isolate's heap.
    /// * `timer` - the timer for turns of the isolate's thread.
    /// * `limit` - CPU time that an invocation may use.
    pub(crate) fn install(
        isolate: &mut v8::Isolate,
        target: Arc<Target>,
        waits: bool,
        guard: Rc<HeapGuard>,
        timer: Arc<TurnTimer>,
        limit: Duration,
    ) -> Rc<Self> {
        let has_commands = Arc::<Notify>::default();
        let number = target.receive(isolate.thread_safe_handle(), Arc::clone(&has_commands));
        let agent = Rc::new(Self {
            target,
            number,
            has_commands,
            // SAFETY: the pointer is used only in calls of this isolate's inspector.
            isolate: unsafe { isolate.as_raw_isolate_ptr() },
            inspector: RefCell::default(),
            sessions: RefCell::default(),
            context: RefCell::default(),
            is_paused: Cell::default(),
            is_logging: Cell::default(),
            waits: Cell::new(waits),
            breaks_on_start: Cell::new(waits),
            may_run: Notify::new(),
            guard,
            timer,
            limit,
        });
        let client = V8InspectorClient::new(Box::new(Embedder(Rc::downgrade(&agent))));
        let inspector = Rc::new(V8Inspector::create(isolate, client));
        *agent.inspector.borrow_mut() = Some(inspector);
        isolate.set_slot(Rc::clone(&agent));
        agent
    }

    /// Returns the agent of an isolate, if it has one.
    pub(crate) fn of(isolate: &v8::Isolate) -> Option<Rc<Self>> {
        isolate.get_slot::<Rc<Self>>().cloned()
    }

    fn inspector(&self) -> Option<Rc<V8Inspector>> {
        self.inspector.borrow().clone()
    }

    /// Returns the description of a module for clients.
    pub(crate) fn script(&self, module: &str) -> Option<&Script> {
        self.target.script(module)
    }

    /// Returns whether a client is attached, or has requested to be.
    pub(crate) fn is_attached(&self) -> bool {
        !self.sessions.borrow().is_empty() || self.target.has_clients(self.number)
    }

    /// Waits until there are commands, or the agent has been closed.
    pub(crate) async fn wait_for_commands(&self) {
        self.has_commands.notified().await;
    }

    /// Waits until the isolate may run its Worker's code.
    pub(crate) async fn may_run(&self) {
        while self.waits.get() {
            self.may_run.notified().await;
        }
    }

    /// Makes the code that runs next pause at its first statement, if the isolate has waited for a
    /// client.
    pub(crate) fn break_on_start(&self) {
        if !self.breaks_on_start.replace(false) {
            return;
        }
        let (reason, details) = (&b"Break on start"[..], &b"{}"[..]);
        let sessions: Vec<_> = self.sessions.borrow().values().cloned().collect();
        for session in sessions {
            session.schedule_pause_on_next_statement(reason.into(), details.into());
        }
    }

    /// Reports to clients the realm in whose context `scope` is, and lets the realm's `console`
    /// report its calls to them. Returns `None` if the heap is full or the agent has been closed.
    ///
    /// # Arguments
    /// * `internal` - the object `internal` of the built-in JavaScript.
    pub(crate) fn add_realm(
        &self,
        scope: &mut v8::PinScope<'_, '_>,
        internal: v8::Local<'_, v8::Object>,
    ) -> Option<()> {
        let inspector = self.inspector()?;
        let context = scope.get_current_context();
        let name = StringView::from(self.target.worker().as_str().as_bytes());
        inspector.context_created(context, GROUP, name, StringView::from(DEFAULT_CONTEXT));
        *self.context.borrow_mut() = Some(v8::Global::new(scope, context));
        console::report_calls(scope, internal)
    }

    /// Reports an uncaught exception to clients.
    pub(crate) fn report(
        &self,
        scope: &mut v8::PinScope<'_, '_>,
        message: v8::Local<'_, v8::Message>,
        exception: v8::Local<'_, v8::Value>,
    ) {
        let Some(inspector) = self.inspector() else { return };
        let text = message.get(scope).to_rust_string_lossy(scope);
        let module = message.get_script_resource_name(scope);
        let module = module.map(|name| name.to_rust_string_lossy(scope)).unwrap_or_default();
        let url = self.script(&module).map_or(module.as_str(), |script| &script.url);
        let (line, column) =
            (message.get_line_number(scope).unwrap_or_default(), message.get_start_column());
        let stack = message
            .get_stack_trace(scope)
            .or_else(|| v8::Exception::get_stack_trace(scope, exception));
        let (text, url) = (utf16(&text), utf16(url));
        inspector.exception_thrown(
            scope.get_current_context(),
            StringView::from(&b"Uncaught"[..]),
            exception,
            StringView::from(&text[..]),
            StringView::from(&url[..]),
            u32::try_from(line).unwrap_or_default(),
            u32::try_from(column).map_or(0, |column| column.saturating_add(1)),
            inspector.create_stack_trace(stack),
            0,
        );
    }

    /// Processes the commands. The isolate must be entered.
    pub(crate) fn process(&self) {
        loop {
            match self.target.next(self.number) {
                InboxItem::Command(Command::Attach(id, outbox)) => self.attach(id, outbox),
                InboxItem::Command(Command::Dispatch(id, message)) => self.dispatch(id, &message),
                InboxItem::Command(Command::Detach(id)) => self.detach(id),
                InboxItem::Nothing => return,
                InboxItem::Ended => return self.detach_all(),
            }
        }
    }

    fn attach(&self, id: ClientId, outbox: Arc<Outbox>) {
        let Some(inspector) = self.inspector() else { return };
        let session = inspector.connect(
            GROUP,
            Channel::new(Box::new(ToClient(outbox))),
            StringView::empty(),
            V8InspectorClientTrustLevel::FullyTrusted,
        );
        self.sessions.borrow_mut().insert(id, Rc::new(session));
        self.timer.limit(Duration::MAX);
    }

    fn dispatch(&self, id: ClientId, message: &str) {
        let session = self.sessions.borrow().get(&id).cloned();
        if let Some(session) = session {
            session.dispatch_protocol_message(StringView::from(message.as_bytes()));
            // The message may have enabled debugging, which adds a callback to V8: near the heap's
            // limit, that callback would pause the code, and V8 would end the process if the code
            // continued.
            // SAFETY: the agent is called only while its isolate is entered.
            let mut isolate = unsafe { v8::Isolate::from_raw_isolate_ptr(self.isolate) };
            self.guard.take_over(&mut isolate);
        }
    }

    fn detach(&self, id: ClientId) {
        // The end of a session calls the agent back, so the session is dropped after the borrow.
        let session = self.sessions.borrow_mut().remove(&id);
        if session.is_some() && self.sessions.borrow().is_empty() {
            self.timer.limit(self.limit);
        }
        drop(session);
    }

    fn detach_all(&self) {
        let ids: Vec<_> = self.sessions.borrow().keys().copied().collect();
        ids.into_iter().for_each(|id| self.detach(id));
        self.allow_run();
    }

    /// Lets the isolate run its Worker's code.
    fn allow_run(&self) {
        self.waits.set(false);
        self.may_run.notify_one();
    }

    /// Blocks the thread until a client lets the code continue, or no client is left.
    fn pause(&self) {
        if self.is_paused.replace(true) {
            return;
        }
        while self.is_paused.get() && !self.sessions.borrow().is_empty() {
            self.target.wait(self.number);
            self.process();
        }
        self.is_paused.set(false);
    }

    /// Ends all sessions and V8's inspector. The caller calls this before the isolate is disposed
    /// of, while the isolate is entered and in a handle scope.
    pub(crate) fn close(&self) {
        self.target.end(self.number);
        self.detach_all();
        drop(self.context.take());
        drop(self.inspector.take());
        self.has_commands.notify_one();
    }
}

/// Processes the commands of an isolate whose code is running.
pub(super) unsafe extern "C" fn on_interrupt(isolate: v8::UnsafeRawIsolatePtr, _: *mut c_void) {
    // SAFETY: V8 passes the isolate that it has interrupted, on the isolate's thread.
    let isolate = unsafe { v8::Isolate::ref_from_raw_isolate_ptr(&isolate) };
    if let Some(agent) = Agent::of(isolate) {
        agent.process();
    }
}

/// The embedder's part of V8's inspector interface.
struct Embedder(Weak<Agent>);

impl V8InspectorClientImpl for Embedder {
    fn run_message_loop_on_pause(&self, _: i32) {
        self.0.upgrade().iter().for_each(|agent| agent.pause());
    }

    fn quit_message_loop_on_pause(&self) {
        self.0.upgrade().iter().for_each(|agent| agent.is_paused.set(false));
    }

    fn run_if_waiting_for_debugger(&self, _: i32) {
        self.0.upgrade().iter().for_each(|agent| agent.allow_run());
    }

    fn ensure_default_context_in_group(&self, _: i32) -> Option<v8::Local<'_, v8::Context>> {
        let agent = self.0.upgrade()?;
        let context = agent.context.borrow().clone()?;
        // SAFETY: V8 calls this function within the isolate and a handle scope.
        let mut isolate = unsafe { v8::Isolate::from_raw_isolate_ptr(agent.isolate) };
        v8::callback_scope!(unsafe scope, &mut isolate);
        let context = v8::Local::new(scope, context);
        // SAFETY: the callback's scope opens no handle scope, so the handle lives in V8's own
        // scope.
        Some(unsafe { context.extend_lifetime_unchecked() })
    }

    fn resource_name_to_url(&self, name: &StringView<'_>) -> Option<v8::UniquePtr<StringBuffer>> {
        let agent = self.0.upgrade()?;
        let url = &agent.script(&name.to_string())?.url;
        Some(StringBuffer::create(StringView::from(url.as_bytes())))
    }
}

/// A channel that passes V8's messages on to a client.
struct ToClient(Arc<Outbox>);

impl ToClient {
    fn send(&self, message: &v8::UniquePtr<StringBuffer>) {
        if let Some(message) = message.as_ref() {
            self.0.push(message.string().to_string());
        }
    }
}

impl ChannelImpl for ToClient {
    fn send_response(&self, _: i32, message: v8::UniquePtr<StringBuffer>) {
        self.send(&message);
    }

    fn send_notification(&self, message: v8::UniquePtr<StringBuffer>) {
        self.send(&message);
    }

    fn flush_protocol_notifications(&self) {}
}

fn utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}
