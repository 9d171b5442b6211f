//! Tests the blocks of a buffer pool.

use proptest::prelude::*;

use super::*;

fn pool(blocks: usize) -> BufferPool {
    BufferPool::new(blocks * SIZE, BufferMetrics::default()).touch()
}

fn filled(block: Block, bytes: &[u8]) -> Block {
    let write = |room: &mut [u8]| {
        room[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len())
    };
    block.fill(write).unwrap()
}

/// Returns whether every byte of the block is its stamp. If two blocks shared a byte, one of the
/// blocks would have lost its stamp.
fn is_intact(block: &Block, stamp: u8) -> bool {
    block[..] == [stamp; SIZE]
}

#[derive(Clone, Debug)]
enum Step {
    Take,
    /// Drops the block at this index, modulo the number of blocks in use.
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => Just(Step::Take), 2 => any::<usize>().prop_map(Step::Drop)];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn no_block_is_taken_twice_and_all_are_returned(blocks in 0_usize..8, steps in steps()) {
        let pool = pool(blocks);
        let mut in_use: Vec<(u8, Block)> = Vec::new();
        let mut refused = 0;
        for (stamp, step) in (0_u8..).zip(steps) {
            match step {
                Step::Take if in_use.len() == blocks => {
                    prop_assert!(pool.take(1).is_none());
                    refused += 1;
                }
                Step::Take => {
                    let block = pool.take(BLOCK_CAPACITY).unwrap();
                    let mut block = filled(block, &[stamp; BLOCK_CAPACITY]);
                    block.prepend(HEADROOM).unwrap().fill(stamp);
                    in_use.push((stamp, block));
                }
                Step::Drop(_) if in_use.is_empty() => {}
                Step::Drop(at) => {
                    let (stamp, block) = in_use.swap_remove(at % in_use.len());
                    prop_assert!(is_intact(&block, stamp));
                }
            }
            prop_assert_eq!(pool.in_use(), in_use.len());
            prop_assert_eq!(pool.0.metrics.in_use.get(), in_use.len() as i64);
        }
        prop_assert_eq!(pool.0.metrics.none_free.get(), refused);
        for (stamp, block) in in_use {
            prop_assert!(is_intact(&block, stamp));
        }
        prop_assert_eq!(pool.0.free.borrow().len(), blocks);
        prop_assert_eq!(pool.0.metrics.in_use.get(), 0);
    }
}

#[test]
fn the_block_that_was_returned_last_is_taken_first() {
    let pool = pool(3);
    let [first, second] = [pool.take(1).unwrap(), pool.take(1).unwrap()];
    let address = first.as_ptr();
    drop(second);
    drop(first);
    assert_eq!(pool.take(1).unwrap().as_ptr(), address);
}

#[test]
fn prepended_bytes_come_first() {
    let pool = pool(1);
    let mut block = filled(pool.take(4).unwrap(), b"body");
    block.prepend(5).unwrap().copy_from_slice(b"head ");
    assert_eq!(&block[..], b"head body");
    assert!(block.prepend(HEADROOM).is_none(), "prepended more than the headroom");
    assert_eq!(block.copy_to_bytes(4), "head");
    assert_eq!((block.remaining(), block.chunk()), (5, &b" body"[..]));
}

#[test]
fn a_reused_block_does_not_reveal_its_previous_content() {
    let pool = pool(1);
    drop(filled(pool.take(6).unwrap(), b"secret"));
    assert!(pool.take(6).unwrap().is_empty());
    assert_eq!(&filled(pool.take(1).unwrap(), b"x")[..], b"x");
}

#[test]
fn data_larger_than_a_block_is_refused_and_counted() {
    let pool = pool(1);
    assert!(pool.take(BLOCK_CAPACITY + 1).is_none());
    assert!(
        pool.take(1).unwrap().fill(|_| None).is_none(),
        "returned a block whose writer had too little space"
    );
    assert_eq!(pool.0.metrics.too_large.get(), 2);
    assert_eq!((pool.in_use(), pool.0.metrics.none_free.get()), (0, 0));
}

#[test]
fn a_block_gets_its_memory_once() {
    let pool = BufferPool::new(2 * SIZE, BufferMetrics::default());
    let first = pool.take(1).unwrap();
    assert_eq!((pool.in_use(), pool.0.unallocated.get()), (1, 1));
    drop(first);
    let pool = pool.touch();
    assert_eq!((pool.in_use(), pool.0.unallocated.get(), pool.0.free.borrow().len()), (0, 0, 2));
    let both = [pool.take(1).unwrap(), pool.take(1).unwrap()];
    assert!(pool.take(1).is_none());
    drop(both);
}

#[test]
fn blocks_outlive_their_pool() {
    let pool = pool(2);
    let block = filled(pool.take(2).unwrap(), b"ok");
    drop(pool);
    assert_eq!(&block[..], b"ok");
}
