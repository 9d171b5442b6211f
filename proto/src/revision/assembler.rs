//! Assembles a revision from the messages of a `GetRevision` stream.
//!
//! The catalog is trusted and has checked the same limits. The assembler checks them again with
//! each message, because at the end of the stream a node would already have the whole revision in
//! memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::{Bytes, BytesMut};

use super::digest::modules_digest;
use super::{
    Binding, BoundService, MAX_BINDINGS, MAX_MODULES, MAX_SOURCE_BYTES, Revision, UnknownFlag,
};
use crate::catalog::{self, GetRevisionResponse, get_revision_response::Part};
use crate::egress::{Egress, InvalidHostPattern};
use crate::id::{ArtifactDigest, InvalidDigest, InvalidWorkerId, RevisionDigest};

/// The reason why the messages of a `GetRevision` stream do not form a revision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedRevision {
    #[error("the stream has no head")]
    NoHead,
    #[error("the head has no limits")]
    NoLimits,
    #[error("a module's first chunk has no name")]
    UnnamedModule,
    #[error("module {0:?} was sent twice")]
    DuplicateModule(String),
    #[error("binding {0:?} was sent twice")]
    DuplicateBinding(String),
    #[error("received {received} of {announced} modules")]
    Incomplete { announced: u32, received: usize },
    #[error("the entrypoint {0:?} is not among the modules")]
    NoEntrypoint(String),
    #[error("received content with digest {actual} instead of {announced}")]
    WrongDigest { announced: RevisionDigest, actual: RevisionDigest },
    #[error("the modules do not have the announced digest")]
    WrongModules,
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

/// The size limit that a revision exceeds.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TooLarge {
    #[error("the revision has more than {MAX_MODULES} modules")]
    Modules,
    #[error("the modules have more than {MAX_SOURCE_BYTES} bytes in total")]
    Source,
    #[error(
        "the revision has more than {MAX_BINDINGS} bindings, compatibility flags and patterns in total"
    )]
    Bindings,
}

/// An assembler of a revision from the messages of a `GetRevision` stream.
#[derive(Default)]
pub struct Assembler {
    head: Option<catalog::RevisionHead>,
    modules: BTreeMap<String, Bytes>,
    /// The module whose last chunk has not arrived yet.
    partial: Option<(String, BytesMut)>,
    /// Total size of module names and modules so far, in bytes.
    source: usize,
}

impl Assembler {
    /// Adds the next message.
    ///
    /// # Errors
    /// Fails if the messages so far cannot become a revision. The assembler must not be used after
    /// that.
    pub fn push(&mut self, message: GetRevisionResponse) -> Result<(), MalformedRevision> {
        match message.part {
            Some(Part::Head(head)) if count(&head) > MAX_BINDINGS => {
                return Err(TooLarge::Bindings.into());
            }
            Some(Part::Head(head)) if head.modules as usize > MAX_MODULES => {
                return Err(TooLarge::Modules.into());
            }
            Some(Part::Head(head)) => self.head = Some(head),
            Some(Part::Module(chunk)) => self.push_chunk(chunk)?,
            // A newer server has sent a part that this version does not know.
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
        if !chunk.end {
            self.partial = Some((name, data));
        } else if self.modules.insert(name.clone(), data.freeze()).is_some() {
            return Err(MalformedRevision::DuplicateModule(name));
        }
        Ok(())
    }

    /// Returns the revision and its digest. This method must be called at the end of the stream.
    ///
    /// # Errors
    /// Fails if a part of the revision is missing or malformed, or if the digest of the content
    /// differs from the announced digest.
    pub fn finish(self) -> Result<(RevisionDigest, Revision), MalformedRevision> {
        let head = self.head.ok_or(MalformedRevision::NoHead)?;
        let state = head.state().into();
        // The pattern does not use `..`, so the compiler demands that a new field is handled here.
        let catalog::RevisionHead {
            digest,
            worker,
            revision: name,
            entrypoint,
            vars,
            secrets,
            limits,
            modules,
            state: _,
            egress,
            services,
            compatibility_flags,
            salt,
            artifact,
            modules_digest: announced_modules,
            assets,
            assets_binding,
        } = head;
        if self.modules.len() != modules as usize {
            return Err(MalformedRevision::Incomplete {
                announced: modules,
                received: self.modules.len(),
            });
        }
        if !self.modules.contains_key(&entrypoint) {
            return Err(MalformedRevision::NoEntrypoint(entrypoint));
        }
        let egress = match egress {
            None => Egress::Open,
            Some(only) => {
                Egress::Only(only.allow.iter().map(|host| host.parse()).collect::<Result<_, _>>()?)
            }
        };
        let artifact = match &artifact[..] {
            [] => None,
            bytes => Some(ArtifactDigest::try_from(bytes)?),
        };
        if artifact.is_some() && announced_modules != modules_digest(&self.modules) {
            return Err(MalformedRevision::WrongModules);
        }
        let revision = Revision {
            worker: worker.parse()?,
            name,
            entrypoint,
            modules: self.modules,
            artifact,
            assets,
            bindings: bindings(vars, secrets, services, assets_binding)?,
            limits: limits.ok_or(MalformedRevision::NoLimits)?.into(),
            state,
            egress,
            compatibility_flags: compatibility_flags
                .iter()
                .map(|flag| flag.parse())
                .collect::<Result<_, _>>()?,
            salt: salt.into(),
        };
        let announced = RevisionDigest::try_from(&digest[..])?;
        let actual = revision.digest();
        if announced != actual {
            return Err(MalformedRevision::WrongDigest { announced, actual });
        }
        Ok((actual, revision))
    }
}

fn bindings(
    vars: Vec<catalog::Variable>,
    secrets: Vec<catalog::Variable>,
    services: Vec<catalog::ServiceBinding>,
    assets: String,
) -> Result<BTreeMap<String, Binding>, MalformedRevision> {
    let mut bindings = BTreeMap::new();
    let mut bind = |name: String, binding| match bindings.entry(name) {
        Entry::Vacant(vacant) => {
            vacant.insert(binding);
            Ok(())
        }
        Entry::Occupied(taken) => Err(MalformedRevision::DuplicateBinding(taken.key().clone())),
    };
    for catalog::Variable { name, value } in vars {
        bind(name, Binding::Var(value))?;
    }
    for catalog::Variable { name, value } in secrets {
        bind(name, Binding::Secret(value))?;
    }
    for catalog::ServiceBinding { name, worker, entrypoint } in services {
        let entrypoint = Some(entrypoint).filter(|entrypoint| !entrypoint.is_empty());
        bind(name, Binding::Service(BoundService { worker: worker.parse()?, entrypoint }))?;
    }
    if !assets.is_empty() {
        bind(assets, Binding::Assets)?;
    }
    Ok(bindings)
}

/// Returns the number of entries that count toward [`MAX_BINDINGS`].
fn count(head: &catalog::RevisionHead) -> usize {
    let hosts = head.egress.as_ref().map_or(0, |egress| egress.allow.len());
    let paths = head.assets.as_ref().map_or(0, |assets| assets.run_worker_first.len());
    head.vars.len()
        + head.secrets.len()
        + head.services.len()
        + head.compatibility_flags.len()
        + hosts
        + paths
}
