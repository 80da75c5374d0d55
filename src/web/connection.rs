//! One HTTP connection at a time, each bounded.
//!
//! Owns how long a header may take, and how long a client may leave an answer
//! unread. Knows nothing of what is asked.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::seats::{Seat, Seats};

/// A request's header must be complete within this; an idle connection is closed after it.
pub const HEADER_TIME: Duration = Duration::from_secs(15);
/// A client that takes nothing of an answer for so long is cut off.
pub const WRITE_TIME: Duration = Duration::from_secs(30);
/// A client whose machine acknowledges nothing for so long is gone: a phone that sleeps, a cable pulled.
const ACK_TIME: Duration = Duration::from_secs(45);
/// A request's header may be so long.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// How long requests in flight may take once the daemon goes down.
const DRAIN: Duration = Duration::from_secs(3);

/// The peer's address, for the handlers.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Accepts and serves until `cancel`; then finishes what is in flight, for a little while.
pub async fn accept(
    listener: TcpListener,
    router: Router,
    seats: Seats,
    cancel: CancellationToken,
) {
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                let millis = u32::try_from(ACK_TIME.as_millis()).unwrap_or(u32::MAX);
                let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, millis);
                let seat = tokio::select! {
                    biased;
                    () = cancel.cancelled() => break,
                    seat = seats.take(peer.ip()) => Arc::new(seat),
                };
                let (router, cancel, cut) = (router.clone(), cancel.clone(), cut.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        () = seat.cut.cancelled() => {}
                        () = serve(stream, peer, router, Arc::clone(&seat), cancel) => {}
                    }
                });
            }
            Err(error) => {
                // Mostly too many open files: it passes, and trying at once would spin.
                warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(500)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if timeout(DRAIN, connections.wait()).await.is_err() {
        warn!("{} requests were cut off by the shutdown", connections.len());
        cut.cancel();
        connections.wait().await;
    }
}

async fn serve<S>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    seat: Arc<Seat>,
    cancel: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        // From when the request is there as a whole until its answer has left, the place is safe.
        let mut request = request.map(|body| Body::new(Incomplete::new(body, &seat)));
        request.extensions_mut().insert(Peer(peer));
        let (answer, seat) = (hyper::service::Service::call(&router, request), Arc::clone(&seat));
        async move {
            let answer = answer.await?;
            Ok::<_, std::convert::Infallible>(answer.map(|body| Leaving::new(body, seat)))
        }
    });
    let mut connection = std::pin::pin!(
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(Patient::new(stream)), service)
    );
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = cancel.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        debug!(%error, %peer, "a connection ended early");
    }
}

/// A request's body; at its end the request is there as a whole.
struct Incomplete {
    body: Incoming,
    seat: Arc<Seat>,
}

impl Incomplete {
    fn new(body: Incoming, seat: &Arc<Seat>) -> Incomplete {
        if body.is_end_stream() {
            seat.is_served(true);
        }
        Incomplete { body, seat: Arc::clone(seat) }
    }
}

impl hyper::body::Body for Incomplete {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.seat.is_served(true);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body; when it has left, the connection waits again.
struct Leaving {
    body: Body,
    seat: Arc<Seat>,
}

impl Leaving {
    fn new(body: Body, seat: Arc<Seat>) -> Leaving {
        // It may be an answer to half a request.
        seat.is_served(true);
        Leaving { body, seat }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.seat.is_served(false);
    }
}

impl hyper::body::Body for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose writes fail once the other side has taken nothing for [`WRITE_TIME`].
struct Patient<S> {
    stream: S,
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Patient<S> {
        Patient { stream, patience: None }
    }

    fn wait<T>(&mut self, done: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.patience = None;
            return done;
        }
        let patience =
            self.patience.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + WRITE_TIME)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wait(done, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.wait(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wait(done, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Patient::new(near);
        let slow = tokio::spawn(async move {
            let mut taken = Vec::new();
            while taken.len() < 8 {
                sleep(WRITE_TIME - Duration::from_secs(1)).await;
                taken.push(far.read_u8().await.unwrap());
            }
            (far, taken)
        });
        near.write_all(b"abcdefgh").await.unwrap();
        let (far, taken) = slow.await.unwrap();
        assert_eq!(taken, b"abcdefgh");
        let error = near.write_all(b"more than four").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    /// Serves one end of a pipe, and gives the other with the task.
    fn serving(
        cancel: &CancellationToken,
    ) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(1024);
        let router = Router::new().route("/", axum::routing::get(async || "here"));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let cancel = cancel.clone();
        let task = tokio::spawn(async move {
            let seat = Arc::new(Seats::default().take(peer.ip()).await);
            serve(near, peer, router, seat, cancel).await;
        });
        (far, task)
    }

    async fn answer(stream: &mut tokio::io::DuplexStream) -> String {
        let mut bytes = vec![0; 1024];
        let count = stream.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_that_does_not_come_and_an_idle_connection_are_given_up() {
        for sent in ["", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let (mut far, served) = serving(&CancellationToken::new());
            far.write_all(sent.as_bytes()).await.unwrap();
            let began = Instant::now();
            if sent.ends_with("\r\n\r\n") {
                assert!(answer(&mut far).await.ends_with("here"));
            }
            // The client stays and says no more; virtual time passes by itself.
            served.await.unwrap();
            assert_eq!(began.elapsed().as_secs(), HEADER_TIME.as_secs(), "{sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_ends_idle_connections_at_once() {
        let cancel = CancellationToken::new();
        let (mut far, served) = serving(&cancel);
        far.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(answer(&mut far).await.ends_with("here"));
        let began = Instant::now();
        cancel.cancel();
        served.await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
