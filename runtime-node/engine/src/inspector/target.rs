//! A revision to which clients can attach, with the commands from the clients to its isolate.
//!
//! A target exists from its announcement on; commands wait until an isolate runs the revision. At
//! most one isolate at a time receives the commands. When another isolate replaces it, because a
//! limit has ended the first, the clients are detached and may attach again.

use std::collections::{BTreeMap, VecDeque};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::Notify;

use super::client::{Client, ClientId, Outbox};
use super::{agent, lock};

/// The description of a module that clients receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The module's URL, in ASCII.
    pub url: String,
    /// The URL of the module's source map, which may itself contain the map.
    pub source_map_url: Option<String>,
}

/// A revision of a Worker to which clients can attach.
#[derive(Debug)]
pub struct Target {
    worker: WorkerId,
    entrypoint: String,
    digest: RevisionDigest,
    scripts: BTreeMap<String, Script>,
    inbox: Mutex<Inbox>,
    /// Notified to wake the thread of a paused isolate.
    has_commands: Condvar,
}

/// A request of a client to the isolate.
#[derive(Debug)]
pub(super) enum Command {
    Attach(ClientId, Arc<Outbox>),
    Dispatch(ClientId, String),
    Detach(ClientId),
}

impl Command {
    fn client(&self) -> ClientId {
        match self {
            Self::Attach(id, _) | Self::Dispatch(id, _) | Self::Detach(id) => *id,
        }
    }
}

/// The next item of an isolate's inbox.
#[derive(Debug)]
pub(super) enum InboxItem {
    Command(Command),
    Nothing,
    /// No further commands will arrive.
    Ended,
}

/// The commands for an isolate, their senders and their receiver.
#[derive(Debug, Default)]
struct Inbox {
    commands: VecDeque<Command>,
    clients: FxHashMap<ClientId, Arc<Outbox>>,
    /// The id of the last client; the ids count from 1.
    last_client: ClientId,
    receiver: Option<Receiver>,
    /// The number of the last receiver; the numbers count from 1.
    last_receiver: u64,
    is_closed: bool,
}

/// The isolate that receives the commands.
#[derive(Clone, Debug)]
struct Receiver {
    number: u64,
    isolate: v8::IsolateHandle,
    wake: Arc<Notify>,
}

impl Inbox {
    /// Detaches all clients.
    fn detach(&mut self) {
        self.commands.clear();
        self.clients.drain().for_each(|(_, outbox)| outbox.close());
    }

    fn is_received_by(&self, number: u64) -> bool {
        !self.is_closed && self.receiver.as_ref().is_some_and(|receiver| receiver.number == number)
    }
}

impl Target {
    pub(super) fn new(
        revision: &Revision,
        digest: RevisionDigest,
        scripts: BTreeMap<String, Script>,
    ) -> Self {
        Self {
            worker: revision.worker.clone(),
            entrypoint: revision.entrypoint.clone(),
            digest,
            scripts,
            inbox: Mutex::default(),
            has_commands: Condvar::new(),
        }
    }

    pub fn worker(&self) -> &WorkerId {
        &self.worker
    }

    pub fn digest(&self) -> RevisionDigest {
        self.digest
    }

    /// Returns the description of a module for clients, or `None` if the Worker has no such module.
    pub fn script(&self, module: &str) -> Option<&Script> {
        self.scripts.get(module)
    }

    /// Returns the URL of the entrypoint, or `None` if the entrypoint has no description.
    pub fn url(&self) -> Option<&str> {
        self.script(&self.entrypoint).map(|script| script.url.as_str())
    }

    /// Detaches the clients of a target whose isolate could not be started.
    pub fn give_up(&self) {
        let mut inbox = lock(&self.inbox);
        if inbox.receiver.is_none() {
            inbox.detach();
        }
    }

    /// Detaches all clients and refuses new ones. Paused code continues.
    pub(super) fn close(&self) {
        let mut inbox = lock(&self.inbox);
        inbox.is_closed = true;
        inbox.detach();
        self.wake(inbox.receiver.clone());
    }

    // Methods for clients.

    /// Attaches a client. Returns `None` if the target has been closed.
    pub(super) fn connect(self: &Arc<Self>) -> Option<Client> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_closed {
            return None;
        }
        inbox.last_client += 1;
        let (id, outbox) = (inbox.last_client, Arc::<Outbox>::default());
        inbox.clients.insert(id, Arc::clone(&outbox));
        inbox.commands.push_back(Command::Attach(id, Arc::clone(&outbox)));
        self.wake(inbox.receiver.clone());
        drop(inbox);
        Some(Client::new(id, Arc::clone(self), outbox))
    }

    /// Sends a message of a client, unless the client has been detached.
    pub(super) fn send(&self, id: ClientId, message: String) {
        let mut inbox = lock(&self.inbox);
        if inbox.clients.contains_key(&id) {
            inbox.commands.push_back(Command::Dispatch(id, message));
            self.wake(inbox.receiver.clone());
        }
    }

    /// Detaches a client.
    pub(super) fn disconnect(&self, id: ClientId) {
        let mut inbox = lock(&self.inbox);
        if inbox.clients.remove(&id).is_none() {
            return;
        }
        if inbox.receiver.is_none() {
            inbox.commands.retain(|command| command.client() != id);
            return;
        }
        inbox.commands.push_back(Command::Detach(id));
        self.wake(inbox.receiver.clone());
    }

    pub(super) fn has_isolate(&self) -> bool {
        lock(&self.inbox).receiver.is_some()
    }

    /// Makes the isolate process its commands, whether it is idle, running or paused.
    fn wake(&self, receiver: Option<Receiver>) {
        let Some(receiver) = receiver else { return };
        self.has_commands.notify_all();
        receiver.wake.notify_one();
        receiver.isolate.request_interrupt(agent::on_interrupt, ptr::null_mut());
    }

    // Methods for the isolate.

    /// Makes an isolate the receiver of the commands. If it replaces an earlier receiver, the
    /// clients are detached. Returns the new receiver's number.
    ///
    /// # Arguments
    /// * `wake` - notified when there are commands.
    pub(super) fn receive(&self, isolate: v8::IsolateHandle, wake: Arc<Notify>) -> u64 {
        let mut inbox = lock(&self.inbox);
        inbox.last_receiver += 1;
        let number = inbox.last_receiver;
        // There may be commands already.
        wake.notify_one();
        let replaced = inbox.receiver.replace(Receiver { number, isolate, wake });
        if replaced.is_some() {
            inbox.detach();
        }
        drop(inbox);
        self.wake(replaced);
        number
    }

    /// Ends the receipt of commands by a receiver, and detaches its clients.
    pub(super) fn end(&self, number: u64) {
        let mut inbox = lock(&self.inbox);
        if inbox.receiver.as_ref().is_some_and(|receiver| receiver.number == number) {
            inbox.receiver = None;
            inbox.detach();
        }
    }

    /// Returns whether this receiver has clients.
    pub(super) fn has_clients(&self, number: u64) -> bool {
        let inbox = lock(&self.inbox);
        inbox.is_received_by(number) && !inbox.clients.is_empty()
    }

    /// Removes and returns the next command.
    pub(super) fn next(&self, number: u64) -> InboxItem {
        let mut inbox = lock(&self.inbox);
        if !inbox.is_received_by(number) {
            return InboxItem::Ended;
        }
        inbox.commands.pop_front().map_or(InboxItem::Nothing, InboxItem::Command)
    }

    /// Blocks the thread until there are commands, or no further ones will arrive.
    pub(super) fn wait(&self, number: u64) {
        let inbox = self.has_commands.wait_while(lock(&self.inbox), |inbox| {
            inbox.is_received_by(number) && inbox.commands.is_empty()
        });
        drop(inbox.unwrap_or_else(PoisonError::into_inner));
    }
}
