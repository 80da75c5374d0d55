//! A pseudo-terminal in place of a USB serial line.
//!
//! Owns its two ends and the stable link that points to it. Must not know what runs over it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::engine::Shared;
use super::stream::{Line, attend};

/// How long a device is gone before it shows up again.
const ABSENT: Duration = Duration::from_millis(200);

/// Serves one; the path stays the same when the device goes and comes back.
pub(super) fn serve(shared: &Arc<Shared>, cancel: CancellationToken) -> io::Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("tombolo-sim-").tempdir()?;
    let link = folder.path().join("radio");
    let _entered = shared.runtime.enter();
    let first = Terminal::open(&link)?;
    let task = {
        let (shared, link) = (shared.clone(), link.clone());
        async move {
            // Removed with its link when this task ends.
            let _folder = folder;
            let mut next = Some(first);
            while !cancel.is_cancelled() {
                match next.take().map_or_else(|| Terminal::open(&link), Ok) {
                    Ok(terminal) => {
                        tokio::select! {
                            () = attend(shared.clone(), terminal, Line::Serial) => {}
                            () = cancel.cancelled() => break,
                        }
                        // Who has it open gets an error now, and finds nothing for a moment.
                        let _gone = std::fs::remove_file(&link);
                    }
                    Err(error) => tracing::warn!(%error, "no pseudo-terminal"),
                }
                tokio::time::sleep(ABSENT).await;
            }
        }
    };
    shared.spawn(task);
    Ok(link)
}

/// The radio's end. The client's end is kept open too, so that clients may come and go unseen, as
/// on a real serial line.
struct Terminal {
    master: AsyncFd<OwnedFd>,
    _client_end: OwnedFd,
}

impl Terminal {
    fn open(link: &Path) -> io::Result<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let name = PathBuf::from(std::ffi::OsString::from(name.to_string_lossy().into_owned()));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let client_end = rustix::fs::open(&name, flags, Mode::empty())?;
        let mut settings = tcgetattr(&client_end)?;
        settings.make_raw();
        tcsetattr(&client_end, OptionalActions::Now, &settings)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        if link.is_symlink() {
            std::fs::remove_file(link)?;
        }
        std::os::unix::fs::symlink(&name, link)?;
        // Deprecated because of types whose descriptor may change; an `OwnedFd`'s doesn't, and the
        // replacement is unsafe, which this program forbids itself.
        #[allow(deprecated)]
        let master = AsyncFd::new(master)?;
        Ok(Terminal { master, _client_end: client_end })
    }
}

impl AsyncRead for Terminal {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.master.poll_read_ready(context))?;
            let mut chunk = [0; 512];
            let room = chunk.len().min(buffer.remaining());
            let Some(space) = chunk.get_mut(..room) else { return Poll::Ready(Ok(())) };
            match ready.try_io(|fd| Ok(rustix::io::read(fd, space)?)) {
                Ok(Ok(count)) => {
                    buffer.put_slice(chunk.get(..count).unwrap_or_default());
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.master.poll_write_ready(context))?;
            match ready.try_io(|fd| match rustix::io::write(fd, bytes) {
                Err(Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
                other => Ok(other?),
            }) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
