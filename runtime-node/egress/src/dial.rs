//! Connects to the first of several addresses that accepts (RFC 8305, "Happy Eyeballs").
//!
//! IPv6 and IPv4 addresses alternate. Each attempt has a head start of a quarter of a second: after
//! that time, or once the attempt has failed, the next attempt starts. The first connection wins,
//! and the other attempts are dropped.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;

use super::policy::Allowed;

/// RFC 8305 §8, "Connection Attempt Delay".
const HEAD_START: Duration = Duration::from_millis(250);

/// Maximum number of addresses that are tried. A name may have any number of addresses.
const MAX_ADDRESSES: usize = 8;

/// A destination that can be tried in parallel with others.
pub(super) trait Candidate: Copy {
    fn is_ipv6(&self) -> bool;
}

/// Connects to the first address that accepts.
///
/// # Arguments
/// * `addresses` - the addresses to try, at least one.
///
/// # Errors
/// Returns the error of the last attempt to fail.
pub(super) async fn dial<A: Candidate + Into<IpAddr>>(
    addresses: &[A],
    port: u16,
) -> io::Result<TcpStream> {
    let stream = first_success(addresses, |address| {
        TcpStream::connect(SocketAddr::new(address.into(), port))
    })
    .await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns the result of the first attempt to succeed.
///
/// # Arguments
/// * `candidates` - the candidates to attempt, at least one.
///
/// # Errors
/// Returns the error of the last attempt to fail.
pub(super) async fn first_success<C, T, E, F>(
    candidates: &[C],
    attempt: impl Fn(C) -> F,
) -> Result<T, E>
where
    C: Candidate,
    F: Future<Output = Result<T, E>>,
{
    let mut rest = interleave(candidates).into_iter().map(attempt);
    let mut attempts = FuturesUnordered::new();
    attempts.extend(rest.next());
    let mut failure = None;
    loop {
        tokio::select! {
            ended = attempts.next() => match ended {
                Some(Ok(won)) => return Ok(won),
                Some(Err(error)) => {
                    failure = Some(error);
                    attempts.extend(rest.next());
                }
                None => return Err(failure.expect("there is no candidate")),
            },
            () = tokio::time::sleep(HEAD_START), if rest.len() > 0 => attempts.extend(rest.next()),
        }
    }
}

/// Alternates the two address families, beginning with IPv6, which RFC 8305 prefers. Each family
/// keeps its order. Returns at most [`MAX_ADDRESSES`] candidates.
fn interleave<C: Candidate>(candidates: &[C]) -> Vec<C> {
    let (six, four): (Vec<_>, Vec<_>) = candidates.iter().copied().partition(Candidate::is_ipv6);
    let longer = six.len().max(four.len());
    let pairs = (0..longer).flat_map(|at| [six.get(at), four.get(at)]);
    pairs.flatten().take(MAX_ADDRESSES).copied().collect()
}

impl Candidate for IpAddr {
    fn is_ipv6(&self) -> bool {
        Self::is_ipv6(self)
    }
}

impl Candidate for Allowed {
    fn is_ipv6(&self) -> bool {
        self.address().is_ipv6()
    }
}

impl From<Allowed> for IpAddr {
    fn from(allowed: Allowed) -> Self {
        allowed.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn allowed(addresses: &[&str]) -> Vec<Allowed> {
        let open = ["0.0.0.0/0", "127.0.0.0/8", "::/0"].map(|net| net.parse().unwrap());
        let open = Policy::new(open.into(), vec![]);
        addresses.iter().map(|address| open.judge(address.parse().unwrap()).unwrap()).collect()
    }

    #[test]
    fn ipv6_and_ipv4_addresses_alternate() {
        let order = interleave(&allowed(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "2a00::1"]));
        let texts: Vec<_> = order.iter().map(|allowed| allowed.address().to_string()).collect();
        assert_eq!(texts, ["2a00::1", "1.0.0.1", "1.0.0.2", "1.0.0.3"]);
    }

    #[test]
    fn the_number_of_addresses_to_try_is_bounded() {
        assert_eq!(interleave(&allowed(&["1.0.0.1"; 40])).len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn the_next_address_is_tried_after_a_connection_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // 127.0.0.9 has no listener on this port.
        let stream = dial(&allowed(&["127.0.0.9", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        assert!(dial(&allowed(&["127.0.0.9"]), port).await.is_err());
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_prevent_the_next_attempt() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // 192.0.2.0/24 is reserved for documentation: the first attempt hangs or fails, and in both
        // cases the second attempt is made.
        let stream = dial(&allowed(&["192.0.2.1", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }
}
