//! One HTTP connection at a time, each bounded.
//!
//! Owns how many there may be, how long a header may take, and how long a client may leave an answer
//! unread. Knows nothing of what is asked.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// Connections at once; further ones wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 64;
/// A request's header must be complete within this; an idle connection is closed after it.
pub const HEADER_TIME: Duration = Duration::from_secs(15);
/// A client that takes nothing of an answer for so long is cut off.
pub const WRITE_TIME: Duration = Duration::from_secs(30);
/// A request's header may be so long.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// How long requests in flight may take once the daemon goes down.
const DRAIN: Duration = Duration::from_secs(3);

/// The peer's address, for the handlers.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Accepts and serves until `cancel`; then finishes what is in flight, for a little while.
pub async fn accept(listener: TcpListener, router: Router, cancel: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            accepted = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, listener.accept().await)
            } => accepted,
        };
        match accepted {
            (place, Ok((stream, peer))) => {
                let _ = stream.set_nodelay(true);
                let (router, cancel, cut) = (router.clone(), cancel.clone(), cut.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        () = serve(stream, peer, router, cancel) => {}
                    }
                    drop(place);
                });
            }
            (_, Err(error)) => {
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

async fn serve<S>(stream: S, peer: SocketAddr, router: Router, cancel: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        hyper::service::Service::call(&router, request)
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
        (far, tokio::spawn(serve(near, peer, router, cancel.clone())))
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
