//! A cache of compiled modules of revisions. With it, the next isolate of a revision compiles
//! neither the module nor the functions that another isolate has called.
//!
//! Each shard has one cache. V8 itself shares a compiled module between all isolates of the
//! process, but only while at least one isolate has the module. This cache keeps the module when no
//! isolate has it, and a module from the cache is not checked again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::check::ModuleSizes;

/// Maximum memory for all compiled modules of the cache, in bytes.
const MAX_MEMORY: usize = 128 << 20;

type Module = (Arc<v8::CompiledWasmModule>, ModuleSizes);

/// The cached modules. The most recently used module is the last.
#[derive(Clone, Default)]
pub struct Compiled(Rc<RefCell<Vec<Module>>>);

impl Compiled {
    /// Returns the module that was compiled from exactly the given bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<Module> {
        let mut modules = self.0.borrow_mut();
        let index = modules.iter().position(|(module, _)| module.get_wire_bytes_ref() == bytes)?;
        let found = modules.remove(index);
        modules.push(found.clone());
        Some(found)
    }

    /// Adds a module, and drops the least recently used ones beyond [`MAX_MEMORY`].
    pub fn add(&self, module: v8::CompiledWasmModule, sizes: ModuleSizes) {
        let mut modules = self.0.borrow_mut();
        modules.push((Arc::new(module), sizes));
        let mut all: usize = modules.iter().map(|(_, sizes)| sizes.memory()).sum();
        while all > MAX_MEMORY {
            let (_, sizes) = modules.remove(0);
            all -= sizes.memory();
        }
    }

    pub fn clear(&self) {
        let modules = self.0.take();
        drop(modules);
    }
}
