//! Computes the times of a schedule. This module is pure.

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronPattern};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tenon_crds::Schedule;

/// A parsed schedule.
///
/// Changes to and from daylight saving time are treated as in Vixie cron. A schedule for certain
/// hours is due immediately if the clocks skip its time, and once if the clocks show its time
/// twice. A schedule for every hour is not affected.
#[derive(Clone, Debug)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

/// The reason why a schedule is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidSchedule {
    #[error(
        "spec.schedules.cron: {cron:?} is not a cron expression ({why}); use five fields such as \
         */15 9-17 * * MON-FRI"
    )]
    Cron { cron: String, why: String },
    #[error("spec.schedules.cron: {0:?} never matches; change its fields to match a time")]
    Never(String),
    #[error(
        "spec.schedules.timeZone: unknown time zone {0:?}; use a name such as Europe/Berlin or UTC"
    )]
    TimeZone(String),
}

impl Timetable {
    /// Parses a schedule.
    ///
    /// # Errors
    /// Fails if the schedule is invalid or never due.
    pub fn of(schedule: &Schedule) -> Result<Self, InvalidSchedule> {
        let Schedule { cron, time_zone } = schedule;
        let zone =
            TimeZone::get(time_zone).map_err(|_| InvalidSchedule::TimeZone(time_zone.clone()))?;
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let invalid =
            |error: CronError| InvalidSchedule::Cron { cron: cron.clone(), why: reason(&error) };
        let parsed = parser.parse(cron).map_err(invalid)?;
        if has_modifiers(&parsed.pattern) {
            let why = "L, W and # are not supported".to_owned();
            return Err(InvalidSchedule::Cron { cron: cron.clone(), why });
        }
        if has_a_time(&parsed.pattern) && has_a_day(&parsed.pattern) {
            Ok(Self { cron: parsed, zone })
        } else {
            Err(InvalidSchedule::Never(cron.clone()))
        }
    }

    /// Returns the first time of the schedule after `time`, or `None` if there is none before the
    /// year 5000.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&time.to_zoned(self.zone.clone()), false).ok()?;
        Some(next.timestamp())
    }
}

/// Returns whether a pattern has modifiers, which the schema refuses and the parser accepts. Only a
/// search could determine when a day with a modifier occurs.
fn has_modifiers(pattern: &CronPattern) -> bool {
    pattern.days.has_modifiers() || pattern.days_of_week.has_modifiers()
}

/// Returns whether each field has a value. The parser turns an empty list into a field that never
/// matches.
fn has_a_time(pattern: &CronPattern) -> bool {
    let CronPattern { minutes, hours, days, months, days_of_week, .. } = pattern;
    [minutes, hours, days, months, days_of_week].iter().all(|field| !field.values().is_empty())
}

/// Returns whether a day that the pattern matches exists in any year. The parser would search until
/// the year 5000, which blocks a shared thread for milliseconds.
fn has_a_day(pattern: &CronPattern) -> bool {
    const LONGEST: [u16; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months = pattern.months.values();
    let longest = months.iter().filter_map(|month| LONGEST.get(usize::from(month - 1))).max();
    // If the day of the week is restricted, it suffices that a day matches it, and every month has
    // all days of the week.
    !pattern.is_dow_wildcard() || pattern.days.values().first() <= longest
}

/// Returns the reason for an error, without the names of the parser's components.
fn reason(error: &CronError) -> String {
    match error {
        CronError::InvalidPattern(why)
        | CronError::IllegalCharacters(why)
        | CronError::ComponentError(why) => why.trim_end_matches('.').to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timetable(cron: &str, zone: &str) -> Result<Timetable, InvalidSchedule> {
        Timetable::of(&Schedule { cron: cron.to_owned(), time_zone: zone.to_owned() })
    }

    /// Returns the times between two moments, formatted as in RFC 3339.
    fn times(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let timetable = timetable(cron, zone).unwrap();
        let next = |time: &Timestamp| timetable.next_after(*time);
        let (from, to): (Timestamp, Timestamp) = (from.parse().unwrap(), to.parse().unwrap());
        let all = std::iter::successors(next(&from), next).take_while(|time| *time < to);
        all.map(|time| time.to_string()).collect()
    }

    #[test]
    fn a_schedule_is_due_at_its_minutes() {
        let times =
            times("*/20 9-10 * * MON-FRI", "UTC", "2026-11-20T09:39:59Z", "2026-11-23T09:21:00Z");
        let friday = [
            "2026-11-20T09:40:00Z",
            "2026-11-20T10:00:00Z",
            "2026-11-20T10:20:00Z",
            "2026-11-20T10:40:00Z",
        ];
        let monday = ["2026-11-23T09:00:00Z", "2026-11-23T09:20:00Z"];
        assert_eq!(times, [&friday[..], &monday].concat());
    }

    #[test]
    fn a_day_matches_by_day_of_the_month_or_of_the_week() {
        let times = times("0 0 13 * FRI", "UTC", "2026-11-01T00:00:01Z", "2026-11-21T00:00:00Z");
        assert_eq!(times, ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"]);
    }

    #[test]
    fn hours_are_in_the_time_zone_of_the_schedule() {
        let times =
            times("30 9 * * *", "America/New_York", "2026-03-07T00:00:00Z", "2026-03-09T23:00:00Z");
        assert_eq!(times, ["2026-03-07T14:30:00Z", "2026-03-08T13:30:00Z", "2026-03-09T13:30:00Z"]);
    }

    #[test]
    fn times_skipped_by_a_clock_change_are_due_immediately() {
        // In Berlin, the clocks skip the time from 02:00 to 03:00 of that day, at 01:00 UTC.
        let times =
            times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(times, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    }

    #[test]
    fn times_repeated_by_a_clock_change_are_due_once() {
        // In Berlin, the clocks show the time from 02:00 to 03:00 of that day twice, from 00:00 to
        // 02:00 UTC.
        let times =
            times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(times, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn an_hourly_schedule_is_not_affected_by_clock_changes() {
        let forward =
            times("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-29T03:30:00Z");
        assert_eq!(forward, [0, 1, 2, 3].map(|hour| format!("2026-03-29T0{hour}:00:00Z")));
        let back =
            times("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T03:30:00Z");
        assert_eq!(back, [0, 1, 2, 3].map(|hour| format!("2026-10-25T0{hour}:00:00Z")));
    }

    #[test]
    fn an_invalid_expression_is_refused_with_its_field_and_a_remedy() {
        let message = |cron: &str, zone: &str| timetable(cron, zone).unwrap_err().to_string();
        for cron in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "30-10 * * * *",
            "* * * ABC *",
            "*/0 * * * *",
        ] {
            let message_text = message(cron, "UTC");
            assert!(
                message_text.starts_with("spec.schedules.cron: ")
                    && message_text.contains("; use five fields"),
                "{cron}: {message_text}"
            );
        }
        for cron in ["0 0 L * *", "0 0 15W * *", "0 0 * * 5#2"] {
            assert!(message(cron, "UTC").contains("L, W and #"), "{cron}");
        }
        for cron in [
            "0 0 31 2 *",
            "0 0 30 2 *",
            "0 0 31 4,6 *",
            ", * * * *",
            "0 , * * *",
            "0 0 , * *",
            "0 0 * , *",
        ] {
            assert!(message(cron, "UTC").contains("never matches; change"), "{cron}");
        }
        for zone in ["Mars/Olympus", "Europe/berlinn", "CET+1"] {
            assert!(message("* * * * *", zone).starts_with("spec.schedules.timeZone: "), "{zone}");
        }
    }

    #[test]
    fn a_schedule_with_an_impossible_date_may_still_be_due() {
        for cron in ["0 0 31 2 FRI", "0 0 30 2 */2", "0 0 31 2,3 *"] {
            assert!(
                timetable(cron, "UTC").unwrap().next_after(Timestamp::UNIX_EPOCH).is_some(),
                "{cron}"
            );
        }
    }

    #[test]
    fn a_schedule_may_wait_for_a_leap_day() {
        assert_eq!(
            times("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2029-01-01T00:00:00Z"),
            ["2028-02-29T00:00:00Z"]
        );
    }

    fn field(values: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = String> {
        let (first, last) = (*values.start(), *values.end());
        prop_oneof![
            Just("*".to_owned()),
            values.clone().prop_map(|value| value.to_string()),
            (1..=last / 2).prop_map(|step| format!("*/{step}")),
            (values.clone(), values).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            Just(format!("{first},{last}")),
        ]
    }

    proptest! {
        #[test]
        fn every_time_is_a_whole_minute_and_later_than_the_previous_time(
            minute in field(0..=59), hour in field(0..=23),
            day in field(1..=28), month in field(1..=12), weekday in field(0..=6),
            zone in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe",
            ]),
            from in 1_500_000_000_i64..2_000_000_000,
        ) {
            let cron = format!("{minute} {hour} {day} {month} {weekday}");
            let timetable = timetable(&cron, zone).unwrap();
            let mut last = Timestamp::from_second(from).unwrap();
            for _ in 0..50 {
                let Some(next) = timetable.next_after(last) else { break };
                prop_assert!(next > last);
                prop_assert_eq!(next.as_millisecond() % 60_000, 0);
                // Any moment in between has the same next time.
                let middle = (last.as_second() + next.as_second()) / 2;
                let between = Timestamp::from_second(middle).unwrap();
                prop_assert_eq!(timetable.next_after(between), Some(next));
                last = next;
            }
        }
    }
}
