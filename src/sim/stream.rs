//! The byte streams between our simulated radio and its client: in process, TCP, pseudo-terminal.
//!
//! Owns frames as firmware reads and writes them (independently of the client's own decoder) and
//! the connections' life. Must not know what a frame says.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::engine::Shared;

/// The longest payload in either direction.
const MAX_PAYLOAD: usize = 512;
/// Bytes kept for a client that does not read. When full, whole frames are dropped.
const MAX_WAITING: usize = 256 * 1024;

/// What kind of line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// A new session with each connection.
    Network,
    /// The radio can't see who is at the other end: its session outlives the client.
    Serial,
}

/// The radio's end of one connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub line: Line,
    out: Mutex<Vec<u8>>,
    wake: Notify,
    closed: CancellationToken,
}

impl Conn {
    pub fn new(line: Line) -> Arc<Conn> {
        Arc::new(Conn {
            line,
            out: Mutex::new(Vec::new()),
            wake: Notify::new(),
            closed: CancellationToken::new(),
        })
    }

    /// Bytes as they are.
    pub fn push_raw(&self, bytes: &[u8]) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.len() + bytes.len() <= MAX_WAITING {
            out.extend_from_slice(bytes);
        }
        drop(out);
        self.wake.notify_one();
    }

    /// One frame.
    pub fn push_frame(&self, payload: &[u8]) {
        let Ok(len) = u16::try_from(payload.len()) else { return };
        if payload.len() > MAX_PAYLOAD {
            return;
        }
        let [high, low] = len.to_be_bytes();
        self.push_raw(&[&[0x94, 0xc3, high, low], payload].concat());
    }

    /// The client gets an end of file.
    pub fn close(&self) {
        self.closed.cancel();
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves one client until either side ends it. A radio that is down ends it at once.
pub(super) async fn attend<S>(shared: Arc<Shared>, stream: S, line: Line)
where
    S: AsyncRead + AsyncWrite,
{
    let Some(conn) = shared.with(|world| world.attach(line)) else { return };
    let (mut from_client, mut to_client) = tokio::io::split(stream);
    let reading = async {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            let bytes = buffer.get(..count).unwrap_or_default();
            shared.with(|world| world.client_bytes(&conn, bytes));
        }
    };
    let writing = async {
        loop {
            let bytes = conn.take();
            if bytes.is_empty() {
                conn.wake.notified().await;
            } else if to_client.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
        () = conn.closed.cancelled() => {}
    }
    shared.with(|world| world.detach(&conn));
}

/// Reads `ToRadio` frames as the firmware does, faults included: `94` followed by anything but `C3`
/// loses both bytes, and a frame that was begun waits for its rest for ever.
#[derive(Debug, Default)]
pub(super) struct Reader {
    header: Vec<u8>,
    payload: Vec<u8>,
    wanted: usize,
}

impl Reader {
    /// Takes one byte; a payload comes out when it was the last one of a frame.
    pub fn push(&mut self, byte: u8) -> Option<Vec<u8>> {
        match (self.header.len(), byte) {
            (0, 0x94) | (1, 0xc3) | (2, _) => self.header.push(byte),
            (0 | 1, _) => self.header.clear(),
            (3, low) => {
                let high = self.header.get(2).copied().unwrap_or(0);
                self.wanted = usize::from(u16::from_be_bytes([high, low]));
                self.header.push(byte);
                if self.wanted > MAX_PAYLOAD {
                    self.header.clear();
                }
            }
            _ => self.payload.push(byte),
        }
        if self.header.len() == 4 && self.payload.len() >= self.wanted {
            self.header.clear();
            return Some(std::mem::take(&mut self.payload));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = Reader::default();
        bytes.iter().filter_map(|b| reader.push(*b)).collect()
    }

    #[test]
    fn garbage_and_a_length_above_512_are_skipped_and_512_passes() {
        let mut bytes = b"boot text \x94".to_vec();
        bytes.extend([0x0a, 0x94, 0xc3, 0x02, 0x01]);
        bytes.extend([0x94, 0xc3, 0x00, 0x02, 7, 8]);
        assert_eq!(read(&bytes), [vec![7, 8]]);
        let mut longest = vec![0x94, 0xc3, 0x02, 0x00];
        longest.extend([5; 512]);
        assert_eq!(read(&longest), [vec![5; 512]]);
    }

    #[test]
    fn a_doubled_first_byte_loses_the_frame_as_it_does_in_firmware() {
        assert!(read(&[0x94, 0x94, 0xc3, 0x00, 0x01, 7]).is_empty());
    }

    #[test]
    fn a_partial_frame_swallows_what_follows() {
        let mut bytes = vec![0x94, 0xc3, 0x00, 0x08, 1, 2];
        bytes.extend([0x94, 0xc3, 0x00, 0x02, 7, 8]);
        bytes.extend([0x94, 0xc3, 0x00, 0x01, 9]);
        assert_eq!(read(&bytes), [vec![1, 2, 0x94, 0xc3, 0x00, 0x02, 7, 8], vec![9]]);
    }

    proptest::proptest! {
        /// Whatever a client left unfinished: 516 × `C3` end it, and the next frame is read.
        #[test]
        fn a_flush_of_c3_frees_the_reader(junk: Vec<u8>, payload in proptest::collection::vec(0u8.., 0..=512)) {
            let mut bytes = junk;
            bytes.extend([0xc3; 516]);
            let [high, low] = u16::try_from(payload.len()).unwrap().to_be_bytes();
            bytes.extend([0x94, 0xc3, high, low]);
            bytes.extend(&payload);
            proptest::prop_assert_eq!(read(&bytes).pop(), Some(payload));
        }
    }

    #[test]
    fn an_empty_frame_is_a_frame() {
        assert_eq!(read(&[0x94, 0xc3, 0, 0]), [Vec::<u8>::new()]);
    }
}
