//! Tests which connections are admitted, rest and end.

use futures::FutureExt as _;

use super::activity::UNREAD_FOR;
use super::*;

const IDLE: Duration = Duration::from_secs(60);
const PLAIN: TlsMemory = TlsMemory { active: 0, resting: 0 };

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn must_end(admitted: &Admitted) -> bool {
    admitted.0.orders.next().now_or_never() == Some(Order::End)
}

#[test]
fn when_memory_is_short_only_connections_of_the_crowd_end() {
    let clients = Clients::new(100 * RESTING, 1000, IDLE);
    let early: Vec<_> = (0..4).map(|i| clients.admit(address(i), PLAIN).unwrap()).collect();
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(clients.admit(address(100), PLAIN).unwrap());
        assert!(clients.memory() <= 100 * RESTING);
        crowd.retain(|client| !must_end(client));
    }
    assert!((60..100).contains(&crowd.len()), "{} connections are left", crowd.len());
    assert!(early.iter().all(|client| !must_end(client)));
    drop((early, crowd));
    assert_eq!(clients.memory(), 0);
    assert!(lock(&clients.list).clients.is_empty());
}

#[test]
fn a_crowd_leaves_descriptors_for_another_address() {
    let clients = Clients::new(1 << 30, 100, IDLE);
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(clients.admit(address(100), PLAIN).unwrap());
        crowd.retain(|client| !must_end(client));
        assert!(crowd.len() <= 75, "{} connections are left", crowd.len());
    }
    let next: Vec<_> = (0..10).map(|_| clients.admit(address(1), PLAIN).unwrap()).collect();
    assert!(next.iter().all(|client| !must_end(client)));
}

/// Opens connections of an address, each with a request in flight, until none is admitted.
fn all_in_flight(clients: &Clients, last: u8) -> Vec<(Admitted, InFlight)> {
    let admit = || {
        let admitted = clients.admit(address(last), PLAIN)?;
        let in_flight = admitted.0.begin_request();
        Some((admitted, in_flight))
    };
    std::iter::from_fn(admit).take(1000).collect()
}

#[test]
fn a_connection_with_a_request_in_flight_does_not_end_for_another() {
    let clients = Clients::new(10 * RESTING, 1000, IDLE);
    let working = all_in_flight(&clients, 1);
    assert!((7..=10).contains(&working.len()), "{} connections were admitted", working.len());
    assert!(clients.admit(address(1), PLAIN).is_none());
    assert!(working.iter().all(|(client, _)| !must_end(client)));
    let before = clients.shed();
    assert!(working[0].0.0.memory(RESTING).is_none());
    assert!(!working[0].0.0.grow(10 * RESTING));
    assert_eq!(clients.shed() - before, 2, "a refusal is not counted once");
}

#[test]
fn a_connection_with_only_unread_responses_may_end_for_another() {
    let clients = Clients {
        started: Instant::now() - UNREAD_FOR * 2,
        ..Clients::new(10 * RESTING, 1000, IDLE)
    };
    let mut crowd = all_in_flight(&clients, 1);
    let (first, second) = (&crowd[0].0.0.clone(), &crowd[1].0.0.clone());
    let mut second_request = first.begin_request();
    for (_, in_flight) in &mut crowd[..2] {
        in_flight.set_unread(true);
    }
    assert!(
        clients.admit(address(1), PLAIN).is_none(),
        "a connection ended although its client had only just stopped reading"
    );
    for client in [first, second] {
        client.activity.wait_since_start();
    }
    // The sample is taken at random.
    assert!((0..1000).any(|_| clients.admit(address(1), PLAIN).is_some()));
    assert_eq!(
        [first, second].map(|client| client.can_end()),
        [false, false],
        "a working connection, or one that has ended, can end"
    );
    assert!(must_end(&crowd[1].0) && !must_end(&crowd[0].0));
    second_request.set_unread(true);
    first.activity.wait_since_start();
    assert!(first.can_end());
    second_request.set_unread(false);
    assert!(!first.can_end(), "a connection whose client reads again can end");
    drop((second_request, crowd));
    assert_eq!([first, second].map(|client| client.activity.unread()), [0, 0]);
}

#[test]
fn the_rate_of_connections_ended_for_a_growing_crowd_is_bounded() {
    let clients = Clients::new(100 * RESTING, 1000, IDLE);
    let mut crowd: Vec<_> =
        std::iter::from_fn(|| clients.admit(address(100), PLAIN)).take(100).collect();
    crowd.retain(|client| !must_end(client));
    let grown =
        crowd.iter().filter(|client| !must_end(client) && client.0.grow(2 * RESTING)).count();
    let ended = crowd.iter().filter(|client| must_end(client)).count();
    // Two connections end for each one whose memory doubles, because the share of an address
    // shrinks with the free memory.
    assert!((1..=2 * MAX_GROWTHS as usize).contains(&ended), "{ended} ended so that {grown} grew");
    assert!(grown + ended < crowd.len());
    assert!(clients.admit(address(100), PLAIN).is_some(), "a new connection was refused");
    assert!(
        clients.admit(address(1), PLAIN).unwrap().0.grow(2 * RESTING),
        "a connection of another address did not grow"
    );
}

#[test]
fn a_crowd_with_requests_in_flight_ends_no_other_connection() {
    let clients = Clients::new(100 * RESTING, 1000, IDLE);
    let waiting: Vec<_> = (0..4).map(|_| clients.admit(address(1), PLAIN).unwrap()).collect();
    let crowd = all_in_flight(&clients, 2);
    assert!(crowd.iter().all(|(client, _)| client.0.memory(RESTING).is_none()));
    assert!(waiting.iter().all(|client| !must_end(client)));
}

#[test]
fn an_idle_connection_rests() {
    let clients =
        Clients { started: Instant::now() - REST_AFTER * 4, ..Clients::new(1 << 20, 1000, IDLE) };
    let admitted = clients.admit(address(1), PLAIN).unwrap();
    let client = &admitted.0;
    client.activity.set_resting(false);
    client.activity.wait_since_start();
    clients.sweep();
    assert_eq!(client.orders.next().now_or_never(), Some(Order::Rest));
    client.activity.set_resting(true);
    clients.sweep();
    assert_eq!(client.orders.next().now_or_never(), None);
}

#[test]
fn a_connection_with_an_unfinished_head_ends_after_its_timeout() {
    let clients =
        Clients { started: Instant::now() - HEAD_TIMEOUT * 2, ..Clients::new(1 << 20, 1000, IDLE) };
    let admitted = clients.admit(address(1), PLAIN).unwrap();
    clients.sweep();
    assert_eq!(admitted.0.orders.next().now_or_never(), None);
    admitted.0.activity.begin_head();
    admitted.0.activity.wait_since_start();
    clients.sweep();
    assert!(must_end(&admitted));
}

#[test]
fn a_connection_between_two_requests_has_a_timeout_of_its_own() {
    for (idle_timeout, ends) in [(HEAD_TIMEOUT, true), (HEAD_TIMEOUT * 3, false)] {
        let started = Instant::now() - HEAD_TIMEOUT * 2;
        let clients = Clients { started, ..Clients::new(1 << 20, 1000, idle_timeout) };
        let admitted = clients.admit(address(1), PLAIN).unwrap();
        drop(admitted.0.begin_request());
        admitted.0.activity.set_resting(true);
        admitted.0.activity.wait_since_start();
        clients.sweep();
        assert_eq!(must_end(&admitted), ends, "{idle_timeout:?}");
    }
}
