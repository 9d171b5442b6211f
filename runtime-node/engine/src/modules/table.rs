//! The table of the modules that have been made in a realm, by name and form, and by V8's hash.

use std::num::NonZeroI32;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tenon_proto::module::Form;

use crate::bytecode::{Bytecode, BytecodeLookup};

/// The key of a module in one of the forms in which it can be imported. V8 has a separate module
/// for each form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) form: Form,
}

/// The modules that have been made in a realm.
#[derive(Default)]
pub struct Modules {
    /// Bytecode from which modules are made without compiling.
    bytecode: Option<Arc<Bytecode>>,
    /// Whether V8 rejected some of the bytecode.
    bytecode_was_rejected: bool,
    made: FxHashMap<Key, v8::Global<v8::Module>>,
    /// Modules by V8's hash, which is not unique.
    keys: FxHashMap<NonZeroI32, Vec<(v8::Global<v8::Module>, Key)>>,
}

impl Modules {
    pub fn new(bytecode: Option<Arc<Bytecode>>) -> Self {
        Self { bytecode, ..Self::default() }
    }

    /// Returns an empty table with the same bytecode.
    pub fn empty_with_same_bytecode(&self) -> Self {
        Self::new(self.bytecode.clone())
    }

    /// Returns whether the modules that have been made so far came from bytecode.
    pub fn bytecode_lookup(&self) -> BytecodeLookup {
        match self.bytecode {
            None => BytecodeLookup::Miss,
            Some(_) if self.bytecode_was_rejected => BytecodeLookup::Rejected,
            Some(_) => BytecodeLookup::Hit,
        }
    }

    pub(super) fn bytecode(&self) -> Option<Arc<Bytecode>> {
        self.bytecode.clone()
    }

    /// Records that V8 rejected the bytecode of a module.
    pub(super) fn reject_bytecode(&mut self) {
        self.bytecode_was_rejected = true;
    }

    pub(super) fn insert(&mut self, hash: NonZeroI32, key: &Key, module: v8::Global<v8::Module>) {
        self.keys.entry(hash).or_default().push((module.clone(), key.clone()));
        self.made.insert(key.clone(), module);
    }

    pub(super) fn get(&self, key: &Key) -> Option<&v8::Global<v8::Module>> {
        self.made.get(key)
    }

    pub(super) fn key_of(&self, module: v8::Local<'_, v8::Module>) -> Option<&Key> {
        let same_hash = self.keys.get(&module.get_identity_hash())?;
        same_hash.iter().find(|(known, _)| *known == module).map(|(_, key)| key)
    }

    /// Returns the modules of code, with their names.
    pub(super) fn code(&self) -> impl Iterator<Item = (&str, &v8::Global<v8::Module>)> {
        let code = self.made.iter().filter(|(key, _)| key.form == Form::Code);
        code.map(|(key, module)| (key.name.as_str(), module))
    }
}
