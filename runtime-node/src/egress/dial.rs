//! Connecting: of several addresses the first that answers (RFC 8305, "Happy Eyeballs").
//!
//! Addresses of IPv6 and IPv4 take turns. Each attempt has a quarter of a second for itself; after that, or once it has
//! failed, the next begins beside it. The first connection wins and the others are given up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;

use super::policy::Allowed;

/// RFC 8305 §8, "Connection Attempt Delay".
const HEAD_START: Duration = Duration::from_millis(250);

/// Addresses that are tried. A name may have any number of them.
const MOST: usize = 8;

/// # Arguments
/// * `addresses` - at least one.
///
/// # Errors
/// That of the last attempt to fail.
pub(super) async fn dial(addresses: &[Allowed], port: u16) -> io::Result<TcpStream> {
    let mut rest = in_turns(addresses).into_iter().map(|address| SocketAddr::new(address, port));
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    attempts.extend(rest.next().map(TcpStream::connect));
    loop {
        tokio::select! {
            ended = attempts.next() => match ended {
                Some(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Some(Err(error)) => {
                    failure = error;
                    attempts.extend(rest.next().map(TcpStream::connect));
                }
                None => return Err(failure),
            },
            () = tokio::time::sleep(HEAD_START), if rest.len() > 0 => attempts.extend(rest.next().map(TcpStream::connect)),
        }
    }
}

/// IPv6 first, as RFC 8305 has it, and each kind in its order.
fn in_turns(addresses: &[Allowed]) -> Vec<IpAddr> {
    let addresses = addresses.iter().map(|allowed| allowed.address());
    let (six, four): (Vec<_>, Vec<_>) = addresses.partition(IpAddr::is_ipv6);
    let longer = six.len().max(four.len());
    let pairs = (0..longer).flat_map(|at| [six.get(at), four.get(at)]);
    pairs.flatten().take(MOST).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::policy::Policy;

    fn allowed(addresses: &[&str]) -> Vec<Allowed> {
        let open = Policy::new(vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()], vec![]);
        addresses.iter().map(|address| open.judge(address.parse().unwrap()).unwrap()).collect()
    }

    #[test]
    fn both_kinds_of_addresses_take_turns() {
        let order = in_turns(&allowed(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "2a00::1"]));
        let texts: Vec<_> = order.iter().map(IpAddr::to_string).collect();
        assert_eq!(texts, ["2a00::1", "1.0.0.1", "1.0.0.2", "1.0.0.3"]);
    }

    #[test]
    fn of_many_addresses_some_are_tried() {
        assert_eq!(in_turns(&allowed(&["1.0.0.1"; 40])).len(), MOST);
    }

    #[tokio::test]
    async fn an_address_that_refuses_makes_way_for_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Nobody listens at that address.
        let stream = dial(&allowed(&["127.0.0.9", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        assert!(dial(&allowed(&["127.0.0.9"]), port).await.is_err());
    }

    #[tokio::test]
    async fn an_address_that_is_silent_does_not_keep_the_next_waiting() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // 192.0.2.0/24 is nobody's: the attempt hangs or fails, and either way the other one is made.
        let stream = dial(&allowed(&["192.0.2.1", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }
}
