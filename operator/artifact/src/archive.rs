//! Packs a bundle into the bytes of an artifact, and unpacks them. This module is pure.
//!
//! Equal bundles have equal bytes, so a bundle that is pushed again needs no upload and keeps its
//! digest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Read};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tar::EntryType;
use tenon_proto::revision::{MAX_MODULES, MAX_SOURCE_BYTES};

use crate::Bundle;

/// Maximum size of a compressed layer, in bytes.
pub const MAX_PACKED_BYTES: usize = 10 * 1024 * 1024;

/// Maximum size of a config, in bytes.
pub const MAX_CONFIG_BYTES: usize = 64 * 1024;

/// Level of zstd compression. Higher levels save a few percent of the bytes and take several times
/// as long.
const LEVEL: i32 = 9;

/// Base-2 logarithm of the maximum window of a compressed layer, in bytes. The window is 32 MiB,
/// which is more than a layer unpacks to.
const WINDOW_LOG_MAX: u32 = 25;

/// Maximum size of an entry without its content, in bytes: its header, the headers of a long name,
/// and padding.
const ENTRY_OVERHEAD: usize = 4 * 1024;

/// A bundle as the two blobs of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    pub config: Bytes,
    pub layer: Bytes,
}

/// The config of an artifact.
#[derive(Debug, Serialize, Deserialize)]
struct Config {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entrypoint: Option<String>,
}

/// The reason why a bundle cannot become an artifact.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    Bounds(#[from] OutOfBounds),
    #[error(
        "the modules take {0} bytes when compressed, more than {MAX_PACKED_BYTES}; remove or \
         minify modules"
    )]
    Packed(usize),
    #[error("the entrypoint {0:?} is not among the modules")]
    Entrypoint(String),
    #[error("cannot compress the modules: {0}")]
    Compress(#[from] io::Error),
}

/// The reason why an artifact cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(transparent)]
    Bounds(#[from] OutOfBounds),
    #[error("the config is not valid: {0}")]
    Config(#[from] serde_json::Error),
    #[error("the layer is not a zstd-compressed tar archive: {0}")]
    Layer(#[from] io::Error),
    #[error("the layer contains {0:?}, which is not a regular file")]
    NotAFile(String),
    #[error("the layer contains {0:?} twice")]
    Duplicate(String),
}

/// The rule that the modules of a bundle violate.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OutOfBounds {
    #[error("there are no modules")]
    Empty,
    #[error("there are more than {MAX_MODULES} modules; bundle them into fewer modules")]
    Modules,
    #[error("the modules have more than {MAX_SOURCE_BYTES} bytes in total; remove modules")]
    Source,
    #[error(
        "{0:?} is not a module name; use a relative path of at most 253 letters, digits, dots, \
         dashes and underscores"
    )]
    Name(String),
}

/// Packs a bundle.
///
/// # Errors
/// Fails if the modules violate a rule of [`OutOfBounds`], the entrypoint is not among them, or the
/// compressed layer has more than [`MAX_PACKED_BYTES`].
pub fn pack(bundle: &Bundle) -> Result<Packed, PackError> {
    check(&bundle.modules)?;
    if let Some(entrypoint) = &bundle.entrypoint
        && !bundle.modules.contains_key(entrypoint)
    {
        return Err(PackError::Entrypoint(entrypoint.clone()));
    }
    let config = Config { entrypoint: bundle.entrypoint.clone() };
    let config = serde_json::to_vec(&config).expect("the config has string keys only").into();
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), LEVEL)?);
    for (name, content) in &bundle.modules {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, &content[..])?;
    }
    let layer = archive.into_inner()?.finish()?;
    if layer.len() > MAX_PACKED_BYTES {
        return Err(PackError::Packed(layer.len()));
    }
    Ok(Packed { config, layer: layer.into() })
}

/// Unpacks an artifact. For any input, this function decompresses no more bytes than the limits
/// allow.
///
/// # Errors
/// Fails if the bytes do not form an artifact, or the modules violate a rule.
pub fn unpack(config: &[u8], layer: &[u8]) -> Result<Bundle, UnpackError> {
    let Config { entrypoint } = serde_json::from_slice(config)?;
    let mut decoder = zstd::Decoder::new(layer)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let limit = MAX_SOURCE_BYTES + MAX_MODULES * ENTRY_OVERHEAD;
    let mut archive = tar::Archive::new(decoder.take(limit as u64));
    let (mut modules, mut room) = (BTreeMap::new(), MAX_SOURCE_BYTES);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            EntryType::Regular => {}
            // Archives of other tools have entries for folders.
            EntryType::Directory => continue,
            _ => return Err(UnpackError::NotAFile(path)),
        }
        let name = path.strip_prefix("./").unwrap_or(&path).to_owned();
        if !is_module_name(&name) {
            return Err(OutOfBounds::Name(name).into());
        }
        if modules.len() == MAX_MODULES {
            return Err(OutOfBounds::Modules.into());
        }
        let size = usize::try_from(entry.size()).unwrap_or(usize::MAX);
        room = size
            .checked_add(name.len())
            .and_then(|size| room.checked_sub(size))
            .ok_or(OutOfBounds::Source)?;
        let mut content = Vec::with_capacity(size);
        entry.read_to_end(&mut content)?;
        if content.len() != size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match modules.entry(name) {
            Entry::Vacant(vacant) => vacant.insert(Bytes::from(content)),
            Entry::Occupied(taken) => return Err(UnpackError::Duplicate(taken.key().clone())),
        };
    }
    if modules.is_empty() {
        return Err(OutOfBounds::Empty.into());
    }
    Ok(Bundle { entrypoint, modules })
}

fn check(modules: &BTreeMap<String, Bytes>) -> Result<(), OutOfBounds> {
    if modules.is_empty() {
        return Err(OutOfBounds::Empty);
    }
    if modules.len() > MAX_MODULES {
        return Err(OutOfBounds::Modules);
    }
    if let Some(name) = modules.keys().find(|name| !is_module_name(name)) {
        return Err(OutOfBounds::Name(name.clone()));
    }
    let bytes: usize = modules.iter().map(|(name, content)| name.len() + content.len()).sum();
    if bytes > MAX_SOURCE_BYTES { Err(OutOfBounds::Source) } else { Ok(()) }
}

/// Returns whether a WorkerRevision accepts a module of this name, and no segment of the name is
/// empty, `.` or `..`, so that the name cannot lead out of a folder.
fn is_module_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
    let is_segment = |segment: &str| !["", ".", ".."].contains(&segment);
    (1..=253).contains(&name.len())
        && name.bytes().all(is_allowed)
        && name.split('/').all(is_segment)
}

#[cfg(test)]
mod tests;
