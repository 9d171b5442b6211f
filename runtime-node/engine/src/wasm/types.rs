//! The types of modules, which V8 remembers forever.
//!
//! V8 keeps one list of all types of all modules in the process, never forgets any, and ends the
//! process when there are two million. So they are counted here, each once, at least as high as V8
//! counts them. The additions of one isolate are limited. One namespace may add half of what the
//! others have left, or all but an eighth while no other has added any, so that some remain for
//! later namespaces. A module that exceeds this is refused; the common types are already known by
//! then.
//!
//! Nothing is ever given back. When little is left ([`are_nearly_used_up`]), the process should
//! drain and restart, which is up to its supervisor.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use wasmparser::{
    BinaryReaderError, CompositeInnerType, FromReader as _, StorageType, SubType,
    TypeSectionReader, ValType,
};

/// The most that the process may have V8 remember: a quarter of V8's limit.
const ALL: TypeUse = TypeUse { types: 500_000, bytes: 32 << 20 };

/// The use, in eighths of [`ALL`], beyond which the process should restart.
const NEARLY: u64 = 6;

/// The most that one isolate may add.
const ONE: TypeUse = TypeUse { types: 20_000, bytes: 1 << 20 };

/// The limit that the types of a module would exceed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TypesRefused {
    #[error("the Worker's modules use too many different types")]
    Isolate,
    #[error("the modules of this namespace's Workers use too many different types on this node")]
    Namespace,
}

/// Types that refer to each other and are therefore remembered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// A keyed hash, so that tenants cannot construct collisions.
    name: u64,
    pub(super) types: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct TypeUse {
    types: u64,
    bytes: u64,
}

impl TypeUse {
    fn and(self, group: &Group) -> Self {
        Self {
            types: self.types + u64::from(group.types),
            bytes: self.bytes + u64::from(group.bytes),
        }
    }

    fn is_within(self, most: Self) -> bool {
        self.types <= most.types && self.bytes <= most.bytes
    }

    /// Returns the given number of eighths of this amount.
    fn eighths(self, eighths: u64) -> Self {
        Self { types: self.types / 8 * eighths, bytes: self.bytes / 8 * eighths }
    }

    fn less(self, other: Self) -> Self {
        Self {
            types: self.types.saturating_sub(other.types),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// The types that an isolate has added.
#[derive(Default)]
pub(crate) struct Added(TypeUse);

#[cfg(test)]
impl Added {
    pub(super) fn count(&self) -> u64 {
        self.0.types
    }
}

#[derive(Default)]
struct Known {
    names: HashSet<u64>,
    all: TypeUse,
    by_namespace: HashMap<Arc<str>, TypeUse>,
}

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The types seen so far. Like V8's list, this is per process.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, Known> {
    // The data is consistent even if code panics while it holds the lock.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the process has seen so many types that it should be replaced.
pub(crate) fn are_nearly_used_up() -> bool {
    known().are_nearly_used_up()
}

/// Returns the type groups of a section.
///
/// # Arguments
/// * `bytes` - the whole module.
pub(super) fn groups(
    section: &TypeSectionReader<'_>,
    bytes: &[u8],
) -> Result<Vec<Group>, BinaryReaderError> {
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
        // The meaning of a group that refers to others depends on all types before it.
        let name = if refers { KEY.hash_one((&bytes[from..to], place)) } else { KEY.hash_one(raw) };
        groups.push(Group { name, types, bytes: raw.len() as u32 });
    }
    Ok(groups)
}

/// Returns whether the type refers to other types.
fn refers(ty: &SubType) -> bool {
    let value = |ty: &ValType| matches!(ty, ValType::Ref(of) if of.type_index().is_some());
    let stored = |ty: &StorageType| matches!(ty, StorageType::Val(of) if value(of));
    !ty.supertype_idxs.is_empty()
        || match &ty.composite_type.inner {
            CompositeInnerType::Func(function) => {
                function.params().iter().chain(function.results()).any(value)
            }
            CompositeInnerType::Array(array) => stored(&array.0.element_type),
            CompositeInnerType::Struct(fields) => {
                fields.fields.iter().any(|field| stored(&field.element_type))
            }
            CompositeInnerType::Cont(_) => true,
        }
}

/// Records the types that V8 will remember for a module that is about to be compiled for a Worker
/// of `namespace`.
///
/// # Errors
/// Fails if they are too many; nothing is recorded then.
pub(super) fn remember(
    groups: &[Group],
    added: &mut Added,
    namespace: &Arc<str>,
) -> Result<(), TypesRefused> {
    known().remember(groups, added, namespace)
}

impl Known {
    fn remember(
        &mut self,
        groups: &[Group],
        added: &mut Added,
        namespace: &Arc<str>,
    ) -> Result<(), TypesRefused> {
        let new: HashSet<u64> = groups
            .iter()
            .map(|group| group.name)
            .filter(|name| !self.names.contains(name))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let before = self.by_namespace.get(namespace).copied().unwrap_or_default();
        let (mut one, mut own, mut all) = (added.0, before, self.all);
        for group in groups.iter().filter(|group| new.contains(&group.name)) {
            (one, own, all) = (one.and(group), own.and(group), all.and(group));
        }
        if !one.is_within(ONE) {
            return Err(TypesRefused::Isolate);
        }
        if !own.is_within(Self::share(self.all.less(before))) {
            return Err(TypesRefused::Namespace);
        }
        (added.0, self.all) = (one, all);
        self.by_namespace.insert(Arc::clone(namespace), own);
        self.names.extend(new);
        Ok(())
    }

    /// Returns what a namespace may add when the others have added `others`.
    fn share(others: TypeUse) -> TypeUse {
        if others.types == 0 { ALL.eighths(7) } else { ALL.less(others).eighths(4) }
    }

    fn are_nearly_used_up(&self) -> bool {
        !self.all.is_within(ALL.eighths(NEARLY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a namespace add as many types as it may, each group from a new isolate. Returns the
    /// number of types.
    fn use_up(known: &mut Known, namespace: &str) -> u64 {
        let namespace = namespace.into();
        let before = known.all.types;
        let group =
            |known: &Known| Group { name: known.names.len() as u64, types: 1_000, bytes: 4_000 };
        while known.remember(&[group(known)], &mut Added::default(), &namespace).is_ok() {}
        known.all.types - before
    }

    #[test]
    fn the_number_of_types_of_an_isolate_is_bounded() {
        let (mut known, mut added) = (Known::default(), Added::default());
        let group = |name| Group { name, types: 1_000, bytes: 4_000 };
        let results: Vec<_> =
            (0..21).map(|name| known.remember(&[group(name)], &mut added, &"one".into())).collect();
        assert_eq!((results[19], results[20]), (Ok(()), Err(TypesRefused::Isolate)));
    }

    #[test]
    fn no_namespace_uses_up_the_types_of_the_others() {
        let mut known = Known::default();
        let shares: Vec<_> = ["one", "other", "third", "fourth"]
            .map(|namespace| use_up(&mut known, namespace))
            .into();
        assert_eq!(shares, [437_000, 31_000, 16_000, 8_000]);
        // The first namespace gets nothing more either.
        assert_eq!(use_up(&mut known, "one"), 0);
        // Known types are free.
        let common = Group { name: 0, types: 1_000, bytes: 4_000 };
        assert_eq!(known.remember(&[common], &mut Added::default(), &"one".into()), Ok(()));
    }

    #[test]
    fn concurrent_namespaces_get_half_of_the_remaining_types() {
        let mut known = Known::default();
        let first = Group { name: u64::MAX, types: 1, bytes: 4 };
        known.remember(&[first], &mut Added::default(), &"other".into()).unwrap();
        assert_eq!(use_up(&mut known, "one"), 249_000);
        assert!(!known.are_nearly_used_up());
        use_up(&mut known, "other");
        use_up(&mut known, "third");
        assert!(known.are_nearly_used_up());
        assert!(
            use_up(&mut known, "fourth") > 0,
            "a namespace can use types until the process is replaced"
        );
    }
}
