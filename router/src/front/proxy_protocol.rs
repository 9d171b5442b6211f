//! The PROXY protocol, versions 1 and 2: a header with which a load balancer begins a connection,
//! to name the client behind it
//! ([specification](https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt)).

use std::io;
use std::net::IpAddr;

use ppp::{PartialResult as _, v1, v2};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// The maximum length of a header of version 1, in bytes.
const MAX_LINE: usize = 107;

/// The maximum length of a header, in bytes. A header with IP addresses takes at most 107 bytes
/// without additional fields, and the additional fields of common load balancers fit into the rest.
const MAX_HEADER: usize = 1024;

/// The start of a connection, as far as it has arrived.
enum Header {
    /// More bytes are needed, and all of those that have arrived belong to the header.
    Incomplete,
    /// The header has this length.
    Complete { length: usize, client: Option<IpAddr> },
}

/// Reads the header, and returns the client that it names. Returns `None` if the load balancer
/// makes the connection itself, as for a health check, or does not know the client.
///
/// # Errors
/// Fails if the connection does not begin with a header of at most [`MAX_HEADER`] bytes, or ends or
/// breaks before the header is complete.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<IpAddr>> {
    let mut start = Vec::new();
    while start.len() < MAX_HEADER {
        let mut bytes = [0; MAX_HEADER];
        let known = start.len();
        // The bytes after the header stay in the socket.
        let count = stream.peek(&mut bytes[known..]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        start.extend_from_slice(&bytes[known..known + count]);
        match parse(&start).ok_or(io::ErrorKind::InvalidData)? {
            Header::Incomplete => {
                stream.read_exact(&mut bytes[..count]).await?;
            }
            Header::Complete { length, client } => {
                stream.read_exact(&mut bytes[..length - known]).await?;
                return Ok(client);
            }
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Parses the start of a connection. Returns `None` if it is not the start of a header.
fn parse(start: &[u8]) -> Option<Header> {
    let is_start_of = |prefix: &[u8]| start.iter().zip(prefix).all(|(byte, wanted)| byte == wanted);
    if is_start_of(v2::PROTOCOL_PREFIX) {
        let parsed = v2::Header::try_from(start);
        if parsed.is_incomplete() {
            return Some(Header::Incomplete);
        }
        let header = parsed.ok()?;
        return Some(Header::Complete { length: header.len(), client: client_v2(&header) });
    }
    if !is_start_of(v1::PROTOCOL_PREFIX.as_bytes()) {
        return None;
    }
    let Some(end) = start.iter().take(MAX_LINE).position(|byte| *byte == b'\n') else {
        return (start.len() < MAX_LINE).then_some(Header::Incomplete);
    };
    let header = v1::Header::try_from(&start[..=end]).ok()?;
    Some(Header::Complete { length: end + 1, client: client_v1(&header.addresses) })
}

fn client_v1(addresses: &v1::Addresses) -> Option<IpAddr> {
    match addresses {
        v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Unknown => None,
    }
}

fn client_v2(header: &v2::Header<'_>) -> Option<IpAddr> {
    match (header.command, &header.addresses) {
        (v2::Command::Proxy, v2::Addresses::IPv4(addresses)) => {
            Some(addresses.source_address.into())
        }
        (v2::Command::Proxy, v2::Addresses::IPv6(addresses)) => {
            Some(addresses.source_address.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Reads a header that arrives in these pieces, and returns the client and what follows.
    async fn received(pieces: Vec<Vec<u8>>) -> io::Result<(Option<IpAddr>, String)> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let sender = tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            for piece in pieces {
                stream.write_all(&piece).await?;
                tokio::task::yield_now().await;
            }
            stream.shutdown().await?;
            io::Result::Ok(stream)
        });
        let (mut stream, _) = listener.accept().await?;
        let client = read(&mut stream).await?;
        drop(sender.await.unwrap()?);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await?;
        Ok((client, rest))
    }

    fn version_2(command: v2::Command) -> Vec<u8> {
        let addresses: (SocketAddr, SocketAddr) =
            ("[2001:db8::7]:1234".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        let version = v2::Version::Two | command;
        v2::Builder::with_addresses(version, v2::Protocol::Stream, addresses).build().unwrap()
    }

    #[tokio::test]
    async fn both_versions_name_the_client_and_leave_the_request() {
        let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n";
        let whole = [&line[..], b"GET /"].concat();
        let expected = (Some("192.0.2.7".parse().unwrap()), "GET /".to_owned());
        assert_eq!(received(vec![whole.clone()]).await.unwrap(), expected);
        let single: Vec<_> = whole.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(received(single).await.unwrap(), expected);
        let binary = [&version_2(v2::Command::Proxy)[..], b"GET /"].concat();
        let expected = (Some("2001:db8::7".parse().unwrap()), "GET /".to_owned());
        assert_eq!(received(vec![binary.clone()]).await.unwrap(), expected);
        let (start, end) = binary.split_at(20);
        assert_eq!(received(vec![start.to_vec(), end.to_vec()]).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_health_check_of_the_load_balancer_names_no_client() {
        let local = [&version_2(v2::Command::Local)[..], b"GET /"].concat();
        assert_eq!(received(vec![local]).await.unwrap(), (None, "GET /".to_owned()));
        let unknown = b"PROXY UNKNOWN\r\nGET /".to_vec();
        assert_eq!(received(vec![unknown]).await.unwrap(), (None, "GET /".to_owned()));
    }

    #[tokio::test]
    async fn a_connection_without_a_header_is_refused() {
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PROXY TCP4 nonsense\r\n", b"PROXY TCP4 1.2.3"]
        {
            assert!(received(vec![bytes.to_vec()]).await.is_err(), "{bytes:?}");
        }
        let endless = [&version_2(v2::Command::Proxy)[..14], &[0xff, 0xff], &[0; 4096]].concat();
        assert!(received(vec![endless]).await.is_err());
    }
}
