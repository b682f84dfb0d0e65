//! Serving until a signal comes, and the end after it.

use std::future::IntoFuture;
use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long requests may take to come to their end after the signal. Together with
/// [`FOR_LOCKS`] it must be shorter than what kills the process (Kubernetes: 30 s).
const FOR_REQUESTS: Duration = Duration::from_secs(10);

/// How long the release of locks may take after that.
pub(crate) const FOR_LOCKS: Duration = Duration::from_secs(2);

/// Serves until `signal` ends. From then on no connection is accepted, and requests that are under
/// way come to their end, or are left alone when their time is over.
pub(crate) async fn serve_until(
    listener: TcpListener,
    router: Router,
    signal: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (begin, begun) = oneshot::channel();
    let signal = async move {
        signal.await;
        println!("Stopping: requests have {FOR_REQUESTS:?} to come to their end.");
        // If nobody listens, serving has ended with an error.
        begin.send(()).ok();
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(signal);
    let time_is_over = async {
        // The sender lives as long as the server.
        begun.await.ok();
        tokio::time::sleep(FOR_REQUESTS).await;
    };
    tokio::select! {
        served = server.into_future() => served,
        () = time_is_over => {
            tracing::warn!("some requests have not come to their end");
            Ok(())
        }
    }
}

/// Ends at Ctrl-C or, on Unix, at SIGTERM.
///
/// # Errors
///
/// The system does not let us listen for a signal.
pub(crate) fn signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    // From here on a signal does not kill the process any more.
    #[cfg(unix)]
    let mut terminate = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate())?
    };
    Ok(async move {
        let ctrl_c = tokio::signal::ctrl_c();
        #[cfg(unix)]
        tokio::select! {
            // An error is as good a reason to stop as a signal: nothing else could stop us.
            _ = ctrl_c => {}
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        ctrl_c.await.ok();
    })
}

/// Over real connections.
#[cfg(test)]
mod tests {

    use lock_core::Redlock;
    use lock_testkit::MemoryNode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::app::App;

    const REQUEST: &[u8] = b"POST /orders/7/charge HTTP/1.1\r\nhost: localhost\r\n\r\n";

    /// How long anything here may take on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Serving {
        client: TcpStream,
        node: MemoryNode,
        stop: oneshot::Sender<()>,
        ended: JoinHandle<io::Result<()>>,
    }

    /// A service that takes `work` to charge an order, and a client that has asked it for that.
    async fn serving(work: Duration) -> Serving {
        let node = MemoryNode::new("memory");
        let locks = Redlock::new([node.clone()]).unwrap();
        let app = App::new(locks.into(), work, work);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let signal = async { stopped.await.unwrap_or_default() };
        let ended = tokio::spawn(serve_until(listener, app.router(), signal));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        keys_become(&node, 1).await;
        Serving {
            client,
            node,
            stop,
            ended,
        }
    }

    async fn keys_become(node: &MemoryNode, count: usize) {
        let wait = async {
            while node.keys().len() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "the node never had {count} keys");
    }

    #[tokio::test]
    async fn a_request_comes_to_its_end_after_the_signal() {
        let mut serving = serving(Duration::from_millis(300)).await;
        serving.stop.send(()).unwrap();
        let mut response = String::new();
        serving.client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
        let ended = tokio::time::timeout(PATIENCE, serving.ended).await;
        ended.expect("it ends").unwrap().unwrap();
    }

    /// In virtual time; the connection is real all the same.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_does_not_hold_up_the_end_for_ever() {
        let serving = serving(Duration::from_secs(3600)).await;
        let began = tokio::time::Instant::now();
        serving.stop.send(()).unwrap();
        serving.ended.await.unwrap().unwrap();
        assert!(began.elapsed() >= FOR_REQUESTS);
        assert!(began.elapsed() < FOR_REQUESTS * 2);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_ends_the_lock() {
        let Serving {
            client,
            node,
            stop: _stop,
            ended: _,
        } = serving(PATIENCE * 2).await;
        drop(client);
        keys_become(&node, 0).await;
    }
}
