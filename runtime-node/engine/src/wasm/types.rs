//! Limits the types of modules, which V8 remembers until the process ends.
//!
//! V8 keeps one list of all types of all modules in the process, removes no type from the list, and
//! ends the process when the list has two million types. So this module counts each type once, and
//! its count is never lower than V8's. The number of types that one isolate may add is limited. A
//! namespace may add half of the types that the other namespaces have left, or seven eighths of all
//! types while no other namespace has added a type. So some types always remain for later
//! namespaces. A module with new types beyond these limits is refused. A module that has only types
//! that are already in the list is never refused.
//!
//! Types are never removed. When few types are left ([`are_nearly_used_up`]), the process should
//! drain and restart; its supervisor decides when.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use wasmparser::{
    BinaryReaderError, CompositeInnerType, FromReader as _, StorageType, SubType,
    TypeSectionReader, ValType,
};

/// Maximum use of the process: a quarter of the number of types that V8 allows.
const ALL: TypeUse = TypeUse { types: 500_000, bytes: 32 << 20 };

/// Use, in eighths of [`ALL`], beyond which the process should restart.
const RESTART_EIGHTHS: u64 = 6;

/// Maximum use that one isolate may add.
const ONE: TypeUse = TypeUse { types: 20_000, bytes: 1 << 20 };

/// The limit that the types of a module would exceed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TypesRefused {
    #[error("the Worker's modules use too many different types")]
    Isolate,
    #[error("the modules of this namespace's Workers use too many different types on this node")]
    Namespace,
}

/// Types that may refer to each other, and that V8 therefore remembers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// A hash that identifies the group. The hash has a secret key, so that tenants cannot
    /// construct collisions.
    name: u64,
    /// Number of types in the group.
    pub(super) types: u32,
    /// Size of the group's encoding, in bytes.
    bytes: u32,
}

/// An amount of types, as V8's list counts them, and of the bytes of their encodings.
#[derive(Clone, Copy, Debug, Default)]
struct TypeUse {
    types: u64,
    bytes: u64,
}

impl TypeUse {
    /// Returns the sum of this amount and the amount of the group.
    fn plus(self, group: &Group) -> Self {
        Self {
            types: self.types + u64::from(group.types),
            bytes: self.bytes + u64::from(group.bytes),
        }
    }

    fn is_within(self, max: Self) -> bool {
        self.types <= max.types && self.bytes <= max.bytes
    }

    /// Returns the given number of eighths of this amount.
    fn eighths(self, eighths: u64) -> Self {
        Self { types: self.types / 8 * eighths, bytes: self.bytes / 8 * eighths }
    }

    /// Returns the difference between this amount and `other`, or zero where `other` is larger.
    fn saturating_sub(self, other: Self) -> Self {
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

/// The types in V8's list. The process has one record because V8 has one list.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, Known> {
    // No code panics while it holds the lock, and a panic would leave consistent data.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether V8's list has so many types that the process should restart.
pub(crate) fn are_nearly_used_up() -> bool {
    known().are_nearly_used_up()
}

/// Returns the groups of types in a section.
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
    for index in 0..count {
        let start = reader.original_position() as usize;
        let group = wasmparser::RecGroup::from_reader(&mut reader)?;
        let raw = &bytes[start..reader.original_position() as usize];
        let refers = group.types().any(refers);
        let types = group.types().len() as u32;
        // The meaning of a group that refers to others depends on all types before it.
        let name = if refers { KEY.hash_one((&bytes[from..to], index)) } else { KEY.hash_one(raw) };
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
/// Fails if the isolate or the namespace has too many new types. The function then records nothing.
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
            (one, own, all) = (one.plus(group), own.plus(group), all.plus(group));
        }
        if !one.is_within(ONE) {
            return Err(TypesRefused::Isolate);
        }
        if !own.is_within(Self::share(self.all.saturating_sub(before))) {
            return Err(TypesRefused::Namespace);
        }
        (added.0, self.all) = (one, all);
        self.by_namespace.insert(Arc::clone(namespace), own);
        self.names.extend(new);
        Ok(())
    }

    /// Returns the amount that a namespace may add in total when the other namespaces have added
    /// `others`.
    fn share(others: TypeUse) -> TypeUse {
        if others.types == 0 { ALL.eighths(7) } else { ALL.saturating_sub(others).eighths(4) }
    }

    fn are_nearly_used_up(&self) -> bool {
        !self.all.is_within(ALL.eighths(RESTART_EIGHTHS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a namespace add types until the next group is refused. Each group comes from a new
    /// isolate. Returns the number of added types.
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
        // The first namespace can add no more types either.
        assert_eq!(use_up(&mut known, "one"), 0);
        // Types that are already known can still be used.
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
            "the fourth namespace can add no types although some are left"
        );
    }
}
