//! Fuzzes schedules. The times of a schedule are whole minutes in increasing order, and the search
//! for the next time has the same result from any point between two times.

#![no_main]

use arbitrary::Arbitrary;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use tenon_crds::Schedule;
use tenon_schedule::timetable::Timetable;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    from: i64,
    zone: &'a str,
    cron: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    let schedule = Schedule { cron: input.cron.to_owned(), time_zone: input.zone.to_owned() };
    let timetable = match Timetable::of(&schedule) {
        Ok(timetable) => timetable,
        Err(invalid) => return assert!(invalid.to_string().starts_with("spec.schedules.")),
    };
    // Clamp to the range of timestamps.
    let range = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    let Ok(mut last) = Timestamp::from_second(input.from.clamp(*range.start(), *range.end()))
    else {
        return;
    };
    for _ in 0..4 {
        let Some(next) = timetable.next_after(last) else { break };
        assert!(next > last);
        let between =
            Timestamp::from_second(last.as_second() + (next.as_second() - last.as_second()) / 2);
        let between = between.expect("cannot represent a time between two times").max(last);
        assert_eq!(timetable.next_after(between), Some(next), "after {last} and {between}");
        // Before standard time, offsets from UTC included seconds.
        if last.as_second() > 0 {
            assert_eq!(next.as_second() % 60, 0);
        }
        last = next;
    }
});
