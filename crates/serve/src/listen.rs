//! The socket: connections are taken in under a limit, each with a time for its head; asked to end, the server takes no more,
//! lets running requests finish, and then goes.

use crate::app::App;
use crate::body::{Call, Reply};
use crate::routes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use qkv_base::{Error, Kind, Result};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// An address that is taken: that another program has it is known before anything is loaded.
pub struct Socket(std::net::TcpListener);

/// A server that listens and does not answer yet.
pub struct Server {
    listener: std::net::TcpListener,
    /// everything but the socket
    pub app: Arc<App>,
}

impl Socket {
    /// Takes an address; port 0 is any that is free.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let fail = |e: std::io::Error| {
            let hint = match e.kind() {
                std::io::ErrorKind::AddrInUse => "another program listens there; choose another with --port N",
                std::io::ErrorKind::PermissionDenied => {
                    "ports below 1024 want privileges; choose another with --port N"
                }
                _ => "check --host and --port",
            };
            Error::new(address.to_string(), e.to_string(), hint).of_kind(Kind::Usage)
        };
        let listen = || -> std::io::Result<std::net::TcpListener> {
            let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
            #[cfg(unix)] // elsewhere it would let another program take the same address
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            // The library's own queue of 128 is full at once where thousands come together, and who finds it full waits a second.
            socket.listen(4096)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        Ok(Self(listen().map_err(fail)?))
    }
}

impl Server {
    /// A server on an address that was taken.
    pub fn new(socket: Socket, app: App) -> Self {
        Self { listener: socket.0, app: Arc::new(app) }
    }

    /// Takes an address and answers there.
    pub fn bind(address: SocketAddr, app: App) -> Result<Self> {
        Ok(Self::new(Socket::bind(address)?, app))
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::read("the socket", &e, ""))
    }

    /// Answers until `stop` is done, then lets running requests finish. Blocks.
    pub fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let io = |e: std::io::Error| Error::read("the socket", &e, "").of_kind(Kind::Io);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("qkv-http").enable_all().build().map_err(io)?;
        let done = runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener).map_err(io)?;
            serve(listener, self.app, stop).await;
            Ok(())
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        done
    }
}

/// Done when a person (Ctrl-C) or the system (SIGTERM) asks the program to end.
pub async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut term) => {
                let (interrupt, term) = (tokio::signal::ctrl_c(), term.recv());
                let (mut interrupt, mut term) = (std::pin::pin!(interrupt), std::pin::pin!(term));
                std::future::poll_fn(|cx| {
                    match interrupt.as_mut().poll(cx).is_ready() || term.as_mut().poll(cx).is_ready() {
                        true => std::task::Poll::Ready(()),
                        false => std::task::Poll::Pending,
                    }
                })
                .await;
            }
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}

async fn serve(listener: TcpListener, app: Arc<App>, stop: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(app.limits.connections.min(files_for_connections())));
    let closing = watch::Sender::new(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = match either(stop.as_mut(), next).await {
            Some(accepted) => accepted,
            None => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (app, closing) = (app.clone(), closing.subscribe());
                tokio::spawn(async move {
                    let _place = place;
                    app.metrics.connections.fetch_add(1, Relaxed);
                    connection(stream, app.clone(), closing).await;
                    app.metrics.connections.fetch_sub(1, Relaxed);
                });
            }
            // Out of file descriptors, or a connection that was gone at once: others wait for theirs.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    app.draining.store(true, Relaxed);
    closing.send_replace(true);
    if tokio::time::timeout(app.limits.grace, all_closed(&app)).await.is_err() {
        app.ending.send_replace(true); // streams end with an error event
        let _ = tokio::time::timeout(Duration::from_secs(2), all_closed(&app)).await;
    }
}

/// How many connections the system allows: each is an open file. Programs begin with few and may ask for more; some are left for
/// what else has to be open.
fn files_for_connections() -> usize {
    let most = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1024);
    usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(128).max(16)
}

/// What `next` comes to, or nothing once `stop` is done.
async fn either<T>(stop: std::pin::Pin<&mut impl Future<Output = ()>>, next: impl Future<Output = T>) -> Option<T> {
    let (mut stop, mut next) = (stop, std::pin::pin!(next));
    std::future::poll_fn(|cx| {
        if stop.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(None);
        }
        next.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn all_closed(app: &App) {
    while app.metrics.connections.load(Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn connection(stream: TcpStream, app: Arc<App>, mut closing: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true); // a token is a small packet and should not wait for the next
    let limits = &app.limits;
    let shared = app.clone();
    let answer = move |request: Request<Incoming>| {
        let app = shared.clone();
        async move { Ok::<Response<Reply>, Infallible>(routes::answer(app, Call::new(request)).await) }
    };
    // The automatic builder of hyper-util would wait for ever for the first byte of a silent client. Without half-close a
    // client that goes away drops the handler, and with it the request's row.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(8192))
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = std::pin::pin!(connection);
    let asked = async move { drop(closing.wait_for(|closing| *closing).await) };
    if either(std::pin::pin!(asked), connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
