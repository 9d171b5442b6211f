//! The bytecode of a revision's modules (V8's code cache), made after first use so that later
//! starts need not compile the same functions again.
//!
//! V8 trusts bytecode, and checks little more than V8's version and flags before it runs the
//! bytecode. Bytecode from outside the process is therefore first verified with a checksum.

use std::collections::BTreeMap;

use tenon_proto::module::ModuleKind;
use tenon_proto::revision::Revision;

/// Total size of modules, in bytes, below which compiling is faster than reading bytecode.
const MIN_SIZE: usize = 8 << 10;

/// Total size of modules, in bytes, above which no bytecode is made, because making it would block
/// the shard for too long.
const MAX_SIZE: usize = 8 << 20;

/// The magic number at the beginning of encoded bytecode, with the version of the encoding.
const MAGIC: [u8; 8] = *b"tenoncc2";

/// Bytecode by module name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bytecode {
    invocations: u32,
    modules: BTreeMap<String, Vec<u8>>,
}

/// The result of the bytecode lookup of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytecodeLookup {
    /// There was bytecode, and V8 rejected none of it.
    Hit,
    /// There was no bytecode.
    Miss,
    /// V8 rejected some of the bytecode.
    Rejected,
}

impl BytecodeLookup {
    pub const ALL: [Self; 3] = [Self::Hit, Self::Miss, Self::Rejected];

    /// Returns the value for the label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Rejected => "rejected",
        }
    }
}

/// The reason why bytes are not bytecode of this V8.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedBytecode {
    #[error("the bytecode was made by another version of V8, or with other flags")]
    Foreign,
    #[error("the bytecode is damaged")]
    Damaged,
}

impl Bytecode {
    /// Returns whether bytecode is made for a revision of this size.
    pub(crate) fn is_worthwhile(revision: &Revision) -> bool {
        let code = revision.modules.iter().filter(|(name, _)| ModuleKind::of(name).is_code());
        (MIN_SIZE..=MAX_SIZE).contains(&code.map(|(_, source)| source.len()).sum())
    }

    pub(crate) fn insert(&mut self, module: String, bytecode: Vec<u8>) {
        self.modules.insert(module, bytecode);
    }

    pub(crate) fn get(&self, module: &str) -> Option<&[u8]> {
        self.modules.get(module).map(Vec::as_slice)
    }

    /// Sets the number of invocations that the isolate had handled when the bytecode was made.
    #[must_use]
    pub fn with_invocations(self, invocations: u32) -> Self {
        Self { invocations, ..self }
    }

    /// Returns the number of invocations that the isolate had handled when the bytecode was made.
    /// V8 compiles a function when it is first called, so bytecode of more invocations has more
    /// functions.
    pub fn invocations(&self) -> u32 {
        self.invocations
    }

    /// Returns the total size of the modules' names and bytecode, in bytes.
    pub fn size(&self) -> usize {
        self.modules.iter().map(|(name, bytecode)| name.len() + bytecode.len()).sum()
    }

    /// Encodes the bytecode: the magic number, V8's version, a checksum, the number of invocations,
    /// and then the name and bytecode of each module, each of them preceded by its length.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(4 + self.size() + 16 * self.modules.len());
        body.extend_from_slice(&self.invocations.to_le_bytes());
        for field in self.modules.iter().flat_map(|(name, bytecode)| [name.as_bytes(), bytecode]) {
            body.extend_from_slice(&(field.len() as u64).to_le_bytes());
            body.extend_from_slice(field);
        }
        let checksum = crc32fast::hash(&body).to_le_bytes();
        [&MAGIC[..], &v8_version(), &checksum, &body].concat()
    }

    /// Decodes the output of [`Self::encode`].
    ///
    /// # Errors
    /// Fails if the bytes were not made by [`Self::encode`] of the same V8.
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedBytecode> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(MalformedBytecode::Foreign)?;
        let rest = rest.strip_prefix(&v8_version()).ok_or(MalformedBytecode::Foreign)?;
        let (checksum, mut body) =
            rest.split_first_chunk::<4>().ok_or(MalformedBytecode::Damaged)?;
        if u32::from_le_bytes(*checksum) != crc32fast::hash(body) {
            return Err(MalformedBytecode::Damaged);
        }
        let (invocations, rest) =
            body.split_first_chunk::<4>().ok_or(MalformedBytecode::Damaged)?;
        body = rest;
        let invocations = u32::from_le_bytes(*invocations);
        let mut decoded = Self { invocations, ..Self::default() };
        while !body.is_empty() {
            let name = String::from_utf8(field(&mut body)?.to_vec())
                .map_err(|_| MalformedBytecode::Damaged)?;
            decoded.insert(name, field(&mut body)?.to_vec());
        }
        Ok(decoded)
    }
}

/// Removes a field, which is a length followed by bytes, and returns the bytes.
fn field<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], MalformedBytecode> {
    let (length, rest) = body.split_first_chunk::<8>().ok_or(MalformedBytecode::Damaged)?;
    let length =
        usize::try_from(u64::from_le_bytes(*length)).map_err(|_| MalformedBytecode::Damaged)?;
    let (field, rest) = rest.split_at_checked(length).ok_or(MalformedBytecode::Damaged)?;
    *body = rest;
    Ok(field)
}

fn v8_version() -> [u8; 4] {
    v8::script_compiler::cached_data_version_tag().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes modules. V8's version tag depends on its flags, which `init` sets: without the call
    /// to `init`, the tag might change during a test.
    fn encoded(modules: BTreeMap<String, Vec<u8>>, invocations: u32) -> Vec<u8> {
        crate::init();
        Bytecode { invocations, modules }.encode()
    }

    proptest! {
        #[test]
        fn encoded_bytecode_can_be_decoded(modules: BTreeMap<String, Vec<u8>>, invocations: u32) {
            let bytes = encoded(modules.clone(), invocations);
            prop_assert_eq!(Bytecode::decode(&bytes), Ok(Bytecode { invocations, modules }));
        }

        #[test]
        fn a_changed_byte_of_encoded_bytecode_is_detected(
            modules: BTreeMap<String, Vec<u8>>,
            at: prop::sample::Index,
            flip in 1..=255_u8,
        ) {
            let mut bytes = encoded(modules, 7);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(Bytecode::decode(&bytes).is_err());
        }

        #[test]
        fn truncated_bytecode_is_refused(
            modules: BTreeMap<String, Vec<u8>>,
            at: prop::sample::Index,
        ) {
            let bytes = encoded(modules, 7);
            prop_assert!(Bytecode::decode(&bytes[..at.index(bytes.len())]).is_err());
        }
    }
}
