//! Keeps modules while they are prepared, from their check to their compilation.

use rustc_hash::FxHashMap;

use super::ModuleBytes;
use super::check::{Check, ModuleSizes};
use super::code::CodeCharge;

/// An isolate's modules that are being prepared, by the numbers that JavaScript uses for them.
#[derive(Default)]
pub struct PreparingModules {
    made: u32,
    by_number: FxHashMap<u32, Preparing>,
}

/// A module that is being prepared.
pub struct Preparing {
    pub bytes: ModuleBytes,
    /// The check of the module's bytes, until the module is admitted.
    pub check: Option<Check>,
    /// The result of the check.
    pub sizes: ModuleSizes,
    /// The charge for the memory that V8 takes for the module, once the module is admitted.
    pub code: Option<CodeCharge>,
}

impl PreparingModules {
    /// Adds a module and returns its number.
    pub fn add(&mut self, bytes: ModuleBytes) -> u32 {
        self.made = self.made.wrapping_add(1);
        let module = Preparing {
            bytes,
            check: Some(Check::new()),
            sizes: ModuleSizes::default(),
            code: None,
        };
        self.by_number.insert(self.made, module);
        self.made
    }

    /// Returns the module with the given number, or `None` if it has been closed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Preparing> {
        self.by_number.get_mut(&number)
    }

    /// Drops the module with the given number.
    pub fn close(&mut self, number: u32) {
        self.by_number.remove(&number);
    }
}
