//! A cache of compiled modules of revisions, so that the next isolate of a revision compiles
//! nothing, not even the functions that another has called.
//!
//! There is one per shard. V8 itself shares compiled modules between all isolates of the process
//! while one of them has them; this cache covers the time when none has, and saves checking the
//! module again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::check::ModuleSizes;

/// The most memory for all compiled modules, in bytes.
const MOST: usize = 128 << 20;

type Module = (Arc<v8::CompiledWasmModule>, ModuleSizes);

/// The compiled modules, the most recently used last.
#[derive(Clone, Default)]
pub struct Compiled(Rc<RefCell<Vec<Module>>>);

impl Compiled {
    /// Returns the module that was compiled from exactly these bytes.
    pub fn find(&self, text: &[u8]) -> Option<Module> {
        let mut modules = self.0.borrow_mut();
        let place = modules.iter().position(|(module, _)| module.get_wire_bytes_ref() == text)?;
        let found = modules.remove(place);
        modules.push(found.clone());
        Some(found)
    }

    pub fn add(&self, module: v8::CompiledWasmModule, sizes: ModuleSizes) {
        let mut modules = self.0.borrow_mut();
        modules.push((Arc::new(module), sizes));
        let mut all: usize = modules.iter().map(|(_, sizes)| sizes.memory()).sum();
        while all > MOST {
            let (_, sizes) = modules.remove(0);
            all -= sizes.memory();
        }
    }

    pub fn clear(&self) {
        let modules = self.0.take();
        drop(modules);
    }
}
