//! Counts the data that the kernel holds for the connections of a port, from `/proc/net/tcp`
//! (proc_pid_net(5)).

use std::fs;

/// Numbers of bytes in the queues of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Bytes that were written and that the peer has not acknowledged.
    pub sent: u64,
    /// Bytes that were received and not read.
    pub received: u64,
}

impl Queued {
    pub fn all(self) -> u64 {
        self.sent + self.received
    }
}

/// Returns the number of bytes that the kernel has queued for the established IPv4 connections with
/// a local port.
///
/// # Errors
/// Fails if `/proc/net/tcp` cannot be read.
pub fn queued(port: u16) -> std::io::Result<Queued> {
    Ok(sum(&fs::read_to_string("/proc/net/tcp")?, port))
}

fn sum(table: &str, port: u16) -> Queued {
    const ESTABLISHED: &str = "01";
    let port_suffix = format!(":{port:04X}");
    table.lines().skip(1).fold(Queued::default(), |sum, line| {
        let mut fields = line.split_whitespace().skip(1);
        let mut next = || fields.next().unwrap_or_default();
        let (local, _remote, state, queues) = (next(), next(), next(), next());
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let queues =
            queues.split_once(':').and_then(|(sent, received)| Some((hex(sent)?, hex(received)?)));
        match queues {
            Some((sent, received)) if state == ESTABLISHED && local.ends_with(&port_suffix) => {
                Queued { sent: sum.sent + sent, received: sum.received + received }
            }
            _ => sum,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_a_port_are_summed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000080 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0200007F:A001 01 00000010:00000002 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 0100007F:1F90 0200007F:A002 01 00000020:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
   3: 0200007F:A002 0100007F:1F90 01 00000000:00001000 00:00000000 00000000     0        0 4 1 0 20 4 30 10 -1
";
        assert_eq!(sum(table, 8080), Queued { sent: 48, received: 2 });
    }
}
