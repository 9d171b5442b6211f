//! What V8 has compiled of the modules of revisions, so that the next isolate of one compiles nothing, not even the
//! functions that another has called.
//!
//! A shard's. V8 itself shares what has been compiled between all isolates of the process for as long as one of them has
//! it; this is for when none has, and to know without looking again that a module may be compiled.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::check::Facts;

/// What all of it may take, in bytes.
const MOST: usize = 128 << 20;

type Module = (Arc<v8::CompiledWasmModule>, Facts);

/// The most recently used last.
#[derive(Clone, Default)]
pub(in crate::engine) struct Compiled(Rc<RefCell<Vec<Module>>>);

impl Compiled {
    /// What was made of exactly these bytes.
    pub(super) fn find(&self, text: &[u8]) -> Option<Module> {
        let mut modules = self.0.borrow_mut();
        let place = modules.iter().position(|(module, _)| module.get_wire_bytes_ref() == text)?;
        let found = modules.remove(place);
        modules.push(found.clone());
        Some(found)
    }

    pub(in crate::engine) fn add(&self, module: v8::CompiledWasmModule, facts: Facts) {
        let mut modules = self.0.borrow_mut();
        modules.push((Arc::new(module), facts));
        let mut all: usize = modules.iter().map(|(_, facts)| facts.memory()).sum();
        while all > MOST {
            let (_, facts) = modules.remove(0);
            all -= facts.memory();
        }
    }

    pub(in crate::engine) fn clear(&self) {
        let modules = self.0.take();
        drop(modules);
    }
}
