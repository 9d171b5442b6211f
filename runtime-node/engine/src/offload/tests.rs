//! Tests how work of several Workers shares the threads.

use futures::executor::block_on;
use futures::future::join_all;

use super::*;

const PLENTY: Duration = Duration::from_secs(60);

fn worker(name: &str) -> WorkerId {
    WorkerId::new("offload", name)
}

/// Returns work that takes `count` slices.
fn slices(count: u32) -> impl FnMut(&Slice<'_>) -> Option<u32> + Send + 'static {
    let mut done = 0;
    move |slice| {
        while !slice.is_over() {}
        done += 1;
        (done == count).then_some(done)
    }
}

#[test]
fn work_returns_its_result_and_its_cpu_time() {
    let done = submit(worker("a"), Meter::new(PLENTY), QueueKind::Parts, slices(2)).unwrap();
    let done = block_on(done).unwrap();
    assert_eq!(done.value, Some(2));
    assert!(done.cpu >= 2 * PART && done.cpu < 20 * PART, "{:?}", done.cpu);
}

#[test]
fn a_flood_of_one_worker_delays_another_by_at_most_one_part_at_a_time() {
    let flood: Vec<_> = (0..40)
        .map(|_| submit(worker("flood"), Meter::new(PLENTY), QueueKind::Parts, slices(20)).unwrap())
        .collect();
    let mut other =
        Box::pin(submit(worker("other"), Meter::new(PLENTY), QueueKind::Parts, slices(5)).unwrap());
    let flood = Box::pin(join_all(flood));
    match block_on(futures::future::select(flood, &mut other)) {
        futures::future::Either::Right((done, _flood)) => {
            assert_eq!(done.unwrap().value, Some(5))
        }
        futures::future::Either::Left(_) => panic!("800 parts of a flood ended before 5 others"),
    }
}

#[test]
fn indivisible_work_never_occupies_all_threads() {
    let endless = || {
        move |slice: &Slice<'_>| -> Option<()> {
            while slice.is_worth_it() {}
            None
        }
    };
    let hogs: Vec<_> = (0..16)
        .map(|n| {
            submit(worker(&format!("hog-{n}")), Meter::new(PLENTY), QueueKind::Whole, endless())
        })
        .collect();
    let done = submit(worker("brief"), Meter::new(PLENTY), QueueKind::Parts, slices(1)).unwrap();
    assert_eq!(block_on(done).unwrap().value, Some(1));
    drop(hogs);
}

#[test]
fn all_work_of_an_invocation_ends_when_its_cpu_time_is_used_up() {
    let meter = Meter::new(4 * PART);
    let work: Vec<_> = (0..8)
        .map(|_| submit(worker("poor"), Arc::clone(&meter), QueueKind::Parts, slices(3)).unwrap())
        .collect();
    let done = block_on(join_all(work));
    let finished = done.iter().flatten().filter(|done| done.value.is_some()).count();
    let cpu: Duration = done.iter().flatten().map(|done| done.cpu).sum();
    assert!(finished <= 1 && cpu < 10 * PART, "{finished} in {cpu:?}");
}

#[test]
fn unwanted_work_releases_its_memory() {
    let held = Arc::new(());
    let work = || {
        let held = Arc::clone(&held);
        move |slice: &Slice<'_>| -> Option<()> {
            let _held = &held;
            while !slice.is_over() {}
            None
        }
    };
    let waiting: Vec<_> = (0..50)
        .map(|_| submit(worker("fickle"), Meter::new(PLENTY), QueueKind::Parts, work()).unwrap())
        .collect();
    assert!(Arc::strong_count(&held) > 50);
    drop(waiting);
    // Work in progress continues to the end of its slice.
    assert!(Arc::strong_count(&held) < 10);
}

#[test]
fn work_that_panics_has_no_result_and_its_thread_continues() {
    let panics = |_: &Slice<'_>| -> Option<()> { panic!("a defect of the work") };
    assert!(
        block_on(submit(worker("a"), Meter::new(PLENTY), QueueKind::Parts, panics).unwrap())
            .is_none()
    );
    let done = submit(worker("a"), Meter::new(PLENTY), QueueKind::Parts, slices(1)).unwrap();
    assert_eq!(block_on(done).unwrap().value, Some(1));
}
