//! The types of modules that V8 remembers.
//!
//! It keeps one list of all types that any module of the process has had, forgets none of them, and ends the process
//! when there are two million. So they are counted here, each once, as V8 does or higher; one isolate may add so many, and
//! when all together have added too many a module is refused that has a new one. The common ones are known by then.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{LazyLock, Mutex, PoisonError};

use wasmparser::{
    BinaryReaderError, CompositeInnerType, FromReader as _, StorageType, SubType, TypeSectionReader, ValType,
};

/// What the process remembers: a quarter of what V8 bears.
const ALL: Use = Use { types: 500_000, bytes: 32 << 20 };

/// What an isolate may add to that.
const ONE: Use = Use { types: 20_000, bytes: 1 << 20 };

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(in crate::engine) enum Refused {
    #[error("the Worker has used too many different types in its modules")]
    OfOne,
    #[error("the node has seen too many different types, and knows not all of this module's")]
    OfAll,
}

/// Types that refer to each other, and so are remembered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Group {
    /// Keyed, so that nobody can make two the same.
    name: u64,
    pub(super) types: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    types: u64,
    bytes: u64,
}

impl Use {
    fn and(self, group: &Group) -> Self {
        Self { types: self.types + u64::from(group.types), bytes: self.bytes + u64::from(group.bytes) }
    }

    fn is_within(self, most: Self) -> bool {
        self.types <= most.types && self.bytes <= most.bytes
    }
}

/// What an isolate has added.
#[derive(Default)]
pub(in crate::engine) struct Added(Use);

#[cfg(test)]
impl Added {
    pub(super) fn count(&self) -> u64 {
        self.0.types
    }
}

struct Known {
    names: HashSet<u64>,
    all: Use,
}

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// V8's list is the process's, and so is this.
static KNOWN: LazyLock<Mutex<Known>> =
    LazyLock::new(|| Mutex::new(Known { names: HashSet::new(), all: Use::default() }));

/// The groups of a section.
///
/// # Arguments
/// * `bytes` - of the module.
pub(super) fn groups(section: &TypeSectionReader<'_>, bytes: &[u8]) -> Result<Vec<Group>, BinaryReaderError> {
    let range = section.range();
    let (from, to) = (range.start as usize, range.end as usize);
    let mut reader = wasmparser::BinaryReader::new(&bytes[from..to], range.start);
    let count = reader.read_var_u32()?;
    let mut groups = Vec::with_capacity(count as usize);
    for place in 0..count {
        let start = reader.original_position() as usize;
        let group = wasmparser::RecGroup::from_reader(&mut reader)?;
        let raw = &bytes[start..reader.original_position() as usize];
        let refers = group.types().any(refers);
        let types = group.types().len() as u32;
        // What a group means that refers to others goes by all that came before it.
        let name = if refers { KEY.hash_one((&bytes[from..to], place)) } else { KEY.hash_one(raw) };
        groups.push(Group { name, types, bytes: raw.len() as u32 });
    }
    Ok(groups)
}

/// Whether it has other types in it.
fn refers(ty: &SubType) -> bool {
    let value = |ty: &ValType| matches!(ty, ValType::Ref(of) if of.type_index().is_some());
    let stored = |ty: &StorageType| matches!(ty, StorageType::Val(of) if value(of));
    !ty.supertype_idxs.is_empty()
        || match &ty.composite_type.inner {
            CompositeInnerType::Func(function) => function.params().iter().chain(function.results()).any(value),
            CompositeInnerType::Array(array) => stored(&array.0.element_type),
            CompositeInnerType::Struct(fields) => fields.fields.iter().any(|field| stored(&field.element_type)),
            CompositeInnerType::Cont(_) => true,
        }
}

/// Takes down what V8 will remember of a module that is about to be compiled.
///
/// # Errors
/// When that is too much; nothing is taken down then.
pub(super) fn remember(groups: &[Group], added: &mut Added) -> Result<(), Refused> {
    // The set is whole whatever happens while the lock is held.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let new: HashSet<u64> = groups.iter().map(|group| group.name).filter(|name| !known.names.contains(name)).collect();
    let (mut one, mut all) = (added.0, known.all);
    for group in groups.iter().filter(|group| new.contains(&group.name)) {
        (one, all) = (one.and(group), all.and(group));
    }
    if new.is_empty() {
        return Ok(());
    }
    if !one.is_within(ONE) {
        return Err(Refused::OfOne);
    }
    if !all.is_within(ALL) {
        return Err(Refused::OfAll);
    }
    (added.0, known.all) = (one, all);
    known.names.extend(new);
    Ok(())
}
