//! A revision, from the messages in which it came.
//!
//! The catalog is trusted, and what it serves has been held against the same maxima; they are held here again, piece by
//! piece, because by the end of the stream a node would have all of it in memory.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::{MAX_BINDINGS, MAX_MODULE_BYTES, MAX_MODULES, MAX_SOURCE_BYTES, Revision, UnknownFlag, from_variables};
use crate::catalog::{self, GetRevisionResponse, get_revision_response::Part};
use crate::egress::{Egress, InvalidHostPattern};
use crate::id::{InvalidDigest, InvalidWorkerId, RevisionDigest};

/// Why a stream of `GetRevision` is not a revision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedRevision {
    #[error("the stream does not begin with the revision's head")]
    NoHead,
    #[error("the head has no limits")]
    NoLimits,
    #[error("a module's first chunk has no name")]
    UnnamedModule,
    #[error("module {0:?} came twice")]
    DuplicateModule(String),
    #[error("{announced} modules were announced and {received} came")]
    Incomplete { announced: u32, received: usize },
    #[error("the entrypoint {0:?} is not among the modules")]
    NoEntrypoint(String),
    #[error("content of digest {actual} came for {announced}")]
    WrongDigest { announced: RevisionDigest, actual: RevisionDigest },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Worker(#[from] InvalidWorkerId),
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    #[error(transparent)]
    Egress(#[from] InvalidHostPattern),
    #[error(transparent)]
    Flag(#[from] UnknownFlag),
}

/// What is too much about a revision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TooLarge {
    #[error("a Worker has at most {MAX_MODULES} modules")]
    Modules,
    #[error("module {0:?} is larger than {MAX_MODULE_BYTES} bytes")]
    Module(String),
    #[error("the modules have more than {MAX_SOURCE_BYTES} bytes together")]
    Source,
    #[error("a Worker has at most {MAX_BINDINGS} bindings, and host patterns for its egress")]
    Bindings,
}

/// Puts a revision together from the messages of a `GetRevision` stream.
#[derive(Default)]
pub struct Assembler {
    head: Option<catalog::RevisionHead>,
    modules: BTreeMap<String, Bytes>,
    partial: Option<(String, BytesMut)>,
    /// Bytes of names and modules so far.
    source: usize,
}

impl Assembler {
    /// Takes the next message.
    ///
    /// # Errors
    /// When what has come so far cannot become a revision. The assembler is of no use after that.
    pub fn push(&mut self, message: GetRevisionResponse) -> Result<(), MalformedRevision> {
        match message.part {
            Some(Part::Head(head)) if bindings(&head) > MAX_BINDINGS => return Err(TooLarge::Bindings.into()),
            Some(Part::Head(head)) if head.modules as usize > MAX_MODULES => return Err(TooLarge::Modules.into()),
            Some(Part::Head(head)) => self.head = Some(head),
            Some(Part::Module(chunk)) => self.push_chunk(chunk)?,
            // A part of a newer server that this version does not know.
            None => {}
        }
        Ok(())
    }

    fn push_chunk(&mut self, chunk: catalog::ModuleChunk) -> Result<(), MalformedRevision> {
        self.source += chunk.name.len() + chunk.data.len();
        if self.source > MAX_SOURCE_BYTES {
            return Err(TooLarge::Source.into());
        }
        let (name, data) = match self.partial.take() {
            Some((name, mut data)) => {
                data.extend_from_slice(&chunk.data);
                (name, data)
            }
            None if chunk.name.is_empty() => return Err(MalformedRevision::UnnamedModule),
            None if self.modules.len() == MAX_MODULES => return Err(TooLarge::Modules.into()),
            None => (chunk.name, BytesMut::from(chunk.data)),
        };
        if data.len() > MAX_MODULE_BYTES {
            return Err(TooLarge::Module(name).into());
        }
        if !chunk.end {
            self.partial = Some((name, data));
        } else if self.modules.insert(name.clone(), data.freeze()).is_some() {
            return Err(MalformedRevision::DuplicateModule(name));
        }
        Ok(())
    }

    /// Call at the end of the stream.
    ///
    /// # Errors
    /// When something is missing, or the content does not have the digest that was announced.
    pub fn finish(self) -> Result<(RevisionDigest, Revision), MalformedRevision> {
        let head = self.head.ok_or(MalformedRevision::NoHead)?;
        if self.modules.len() != head.modules as usize {
            return Err(MalformedRevision::Incomplete { announced: head.modules, received: self.modules.len() });
        }
        if !self.modules.contains_key(&head.entrypoint) {
            return Err(MalformedRevision::NoEntrypoint(head.entrypoint));
        }
        let services = head.services.iter().map(|service| Ok((service.name.clone(), service.worker.parse()?)));
        let egress = match &head.egress {
            None => Egress::Open,
            Some(only) => Egress::Only(only.allow.iter().map(|host| host.parse()).collect::<Result<_, _>>()?),
        };
        let flags = head.compatibility_flags.iter().map(|flag| flag.parse());
        let revision = Revision {
            state: head.state().into(),
            services: services.collect::<Result<_, InvalidWorkerId>>()?,
            compatibility_flags: flags.collect::<Result<_, _>>()?,
            egress,
            worker: head.worker.parse()?,
            name: head.revision,
            entrypoint: head.entrypoint,
            modules: self.modules,
            vars: from_variables(head.vars),
            secrets: from_variables(head.secrets),
            limits: head.limits.ok_or(MalformedRevision::NoLimits)?.into(),
        };
        let announced = RevisionDigest::try_from(&head.digest[..])?;
        let actual = revision.digest();
        if announced != actual {
            return Err(MalformedRevision::WrongDigest { announced, actual });
        }
        Ok((actual, revision))
    }
}

/// Everything in a head of which there can be many.
fn bindings(head: &catalog::RevisionHead) -> usize {
    let hosts = head.egress.as_ref().map_or(0, |egress| egress.allow.len());
    head.vars.len() + head.secrets.len() + head.services.len() + head.compatibility_flags.len() + hosts
}
