//! Mutants, which are copies of valid objects with one or two mistakes. This module is pure, and
//! its mutants are the same in every run.
//!
//! ```text
//!  good object ─► places ─► × oddities, removed, renamed, twice, another place's value  (all)
//!                       └─► × strings with one slip, two edits at once                  (random)
//! ```

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::{Value, json};

use super::field_path::{FieldPath, places};
use super::oddities::{oddities, siblings, slip};

/// Seed of the random mutants. It is constant, so that every run has the same mutants.
pub const SEED: u64 = 0x7e40;

/// Number of mutants with one wrong character for each string of a good object.
const SLIPS: usize = 12;

/// Number of mutants with two edits for each good object.
const PAIRS: usize = 100;

/// A copy of a good object, with edits.
pub struct Mutant {
    good: Arc<Value>,
    edits: Vec<Edit>,
}

/// One mistake in an object.
#[derive(Clone)]
enum Edit {
    Set(FieldPath, Arc<Value>),
    /// Adds a field.
    Add(FieldPath, Value),
    Remove(FieldPath),
    /// Renames a field.
    Rename(FieldPath, String),
    /// Appends a copy of an item to its list.
    DuplicateItem(FieldPath),
    /// Writes a field twice.
    DuplicateField(FieldPath),
}

/// Placeholder for the name of a duplicate field until the object is serialized.
const DUPLICATE: &str = "\u{1}repeated";

impl Mutant {
    /// Returns all mutants of a good object, and the object itself.
    pub fn all_of(good: Value) -> Vec<Self> {
        let mut rng = Rng::with_seed(SEED);
        let places = places(&good);
        let edits = edits(&good, &places, &mut rng);
        let pairs = (0..PAIRS).map(|_| {
            let mut any = || edits[rng.usize(..edits.len())].clone();
            vec![any(), any()]
        });
        let sets: Vec<_> =
            pairs.chain([Vec::new()]).chain(edits.iter().map(|edit| vec![edit.clone()])).collect();
        let good = Arc::new(good);
        sets.into_iter().map(|edits| Self { good: good.clone(), edits }).collect()
    }

    /// Returns the request body.
    pub fn body(&self) -> String {
        let mut object = (*self.good).clone();
        // The first of two edits may have removed the place of the second.
        let duplicate = self.edits.iter().filter_map(|edit| edit.apply(&mut object)).last();
        let text = object.to_string();
        match duplicate {
            Some(field) => text.replace(&json!(DUPLICATE).to_string(), &json!(field).to_string()),
            None => text,
        }
    }

    /// Returns the places that differ from the good object. A refusal must name one of these
    /// places, or a place below one.
    pub fn places(&self) -> impl Iterator<Item = FieldPath> {
        self.edits.iter().flat_map(Edit::places)
    }

    /// Returns whether this is the good object.
    pub fn is_good(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns whether the edits concern only the spec.
    pub fn edits_only_spec(&self) -> bool {
        self.places().all(|place| place.to_string().starts_with("spec"))
    }
}

/// Describes the mutant in reports of wrong verdicts.
impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            self.good["kind"].as_str().unwrap_or_default(),
            self.good["metadata"]["name"]
        )?;
        for edit in &self.edits {
            match edit {
                Edit::Set(at, value) => write!(f, ", {at} = {:.60}", value.to_string())?,
                Edit::Add(at, value) => write!(f, ", with {at} = {value}")?,
                Edit::Remove(at) => write!(f, ", without {at}")?,
                Edit::Rename(at, name) => write!(f, ", {at} as {name:.60?}")?,
                Edit::DuplicateItem(at) => write!(f, ", duplicate item {at}")?,
                Edit::DuplicateField(at) => write!(f, ", duplicate field {at}")?,
            }
        }
        Ok(())
    }
}

impl Edit {
    /// Applies the edit. Returns the name of the field that must be written twice, if there is one.
    fn apply(&self, object: &mut Value) -> Option<String> {
        match self {
            Self::Set(at, value) => *at.find(object)? = (**value).clone(),
            Self::Add(at, value) => {
                at.parent()
                    .find(object)?
                    .as_object_mut()?
                    .insert(at.name()?.to_owned(), value.clone());
            }
            Self::Remove(at) => drop(at.parent().find(object)?.as_object_mut()?.remove(at.name()?)),
            Self::Rename(at, name) => {
                let parent = at.parent();
                let fields = parent.find(object)?.as_object_mut()?;
                let value = fields.remove(at.name()?)?;
                fields.insert(name.clone(), value);
            }
            Self::DuplicateItem(at) => {
                let item = at.find(object)?.clone();
                at.parent().find(object)?.as_array_mut()?.push(item);
            }
            Self::DuplicateField(at) => {
                let value = at.find(object)?.clone();
                at.parent().find(object)?.as_object_mut()?.insert(DUPLICATE.to_owned(), value);
                return at.name().map(str::to_owned);
            }
        }
        None
    }

    fn places(&self) -> Vec<FieldPath> {
        match self {
            Self::Set(at, _) | Self::Add(at, _) | Self::Remove(at) | Self::DuplicateField(at) => {
                vec![at.clone()]
            }
            // A rule on a map's keys names the map.
            Self::Rename(at, name) => vec![at.clone(), at.parent().field(name), at.parent()],
            Self::DuplicateItem(at) => vec![at.parent()],
        }
    }
}

fn edits(good: &Value, places: &[FieldPath], rng: &mut Rng) -> Vec<Edit> {
    let mut edits = Vec::new();
    for at in places {
        let value = at.get(good);
        edits.extend(oddities(value).into_iter().map(|odd| Edit::Set(at.clone(), Arc::new(odd))));
        if let Some(text) = value.as_str() {
            edits.extend(
                (0..SLIPS).map(|_| Edit::Set(at.clone(), Arc::new(slip(text, rng).into()))),
            );
        }
        if let Some(fields) = value.as_object() {
            let added = siblings().into_iter().filter(|(name, _)| !fields.contains_key(*name));
            edits.extend(added.map(|(name, sibling)| Edit::Add(at.field(name), sibling)));
        }
        let Some(name) = at.name() else {
            edits.push(Edit::DuplicateItem(at.clone()));
            continue;
        };
        edits.extend([Edit::Remove(at.clone()), Edit::DuplicateField(at.clone())]);
        let odd_names =
            ["", "9 lives", "../up.js", "a/b.js", "code.wasm", "GREETING", "nul\0", "Straße"]
                .map(str::to_owned);
        let names = odd_names
            .into_iter()
            .chain(["x".repeat(70), "x".repeat(300)])
            .chain((0..3).map(|_| slip(name, rng)));
        edits.extend(
            names.filter(|other| other != name).map(|other| Edit::Rename(at.clone(), other)),
        );
        // `binding` holds the name of a binding, as `name` does elsewhere.
        let is_same = |other: &str| other == name || (name, other) == ("binding", "name");
        let namesakes =
            places.iter().filter(|other| other.name().is_some_and(is_same) && *other != at);
        edits.extend(
            namesakes.map(|other| Edit::Set(at.clone(), Arc::new(other.get(good).clone()))),
        );
    }
    edits
}
