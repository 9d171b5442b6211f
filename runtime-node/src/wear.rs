//! Decides whether a process is worn out; the supervisor drains and replaces such a process. This
//! module is pure; [`crate::shard`] reads the signs.
//!
//! | what is used up | signs |
//! | --- | --- |
//! | memory, in pieces that the allocator keeps | evicting frees nothing, and much is mapped |
//! | V8's room for WebAssembly types | the engine reports this |

use std::time::Duration;

use crate::memory::Pressure;

/// Time without memory for a start, and without anything to evict, after which a process is
/// replaced.
pub const MAX_WITHOUT_RELIEF: Duration = Duration::from_secs(2);

/// Minimum size of a process's private writable memory, in bytes, at which a restart frees memory.
/// A process without isolates has about 25 MiB.
const OUTGROWN: u64 = 64 << 20;

/// Signs of wear in a process.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// Time for which no isolate could be started and no step against the shortage of memory has
    /// freed anything.
    pub without_relief: Duration,
    /// The pressure on this process that results from its own limit. The pressure on the node does
    /// not count: if other processes cause it, a restart of this process would not change it.
    pub pressure: Pressure,
    /// Private writable memory of the process, in bytes.
    pub mapped: u64,
    /// Whether the WebAssembly types that V8 can remember are nearly used up.
    pub types_are_used_up: bool,
}

impl Signs {
    /// Returns whether the process is to be replaced.
    pub fn show_wear(&self) -> bool {
        self.types_are_used_up || self.is_outgrown()
    }

    /// Returns whether the process is short of memory within its own limit and has taken much
    /// memory: the pieces that the allocator keeps cannot become the heap of an isolate.
    fn is_outgrown(&self) -> bool {
        self.without_relief >= MAX_WITHOUT_RELIEF
            && self.pressure > Pressure::Eased
            && self.mapped >= OUTGROWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORN_OUT: Signs = Signs {
        without_relief: MAX_WITHOUT_RELIEF,
        pressure: Pressure::Critical,
        mapped: OUTGROWN,
        types_are_used_up: false,
    };

    #[test]
    fn a_process_that_cannot_free_its_memory_is_worn_out() {
        assert!(WORN_OUT.show_wear());
        assert!(Signs { pressure: Pressure::Tight, ..WORN_OUT }.show_wear());
    }

    #[test]
    fn a_process_that_freed_memory_recently_is_not_worn_out() {
        let without_relief = MAX_WITHOUT_RELIEF - Duration::from_millis(1);
        assert!(!Signs { without_relief, ..WORN_OUT }.show_wear());
    }

    #[test]
    fn a_process_that_a_restart_would_not_make_smaller_is_not_worn_out() {
        assert!(!Signs { mapped: OUTGROWN - 1, ..WORN_OUT }.show_wear());
    }

    #[test]
    fn a_process_is_not_worn_out_because_other_processes_use_the_nodes_memory() {
        assert!(!Signs { pressure: Pressure::Eased, ..WORN_OUT }.show_wear());
    }

    #[test]
    fn a_process_without_room_for_types_is_worn_out_however_much_memory_it_has() {
        let at_ease = Signs {
            without_relief: Duration::ZERO,
            pressure: Pressure::Eased,
            mapped: 0,
            types_are_used_up: true,
        };
        assert!(at_ease.show_wear() && !Signs { types_are_used_up: false, ..at_ease }.show_wear());
    }
}
