//! Callers on other runtimes than that of the connection.

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::runtime::ThreadRuntime;

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A node that is connected on a runtime.
fn connected_on(runtime: &Runtime) -> (Server, ClientNode<Toy>) {
    let server = Server::default();
    let node = ClientNode::new(server.client());
    runtime.block_on(answered(&server, &node));
    (server, node)
}

/// Waits until a call is answered.
async fn answered(server: &Server, node: &ClientNode<Toy>) {
    let command = inspect("k");
    let mut call = node.execute(&command, LONG);
    let answer = std::future::poll_fn(|cx| {
        let poll = call.as_mut().poll(cx);
        server.answer_all();
        poll
    });
    answer.await.unwrap();
}

#[test]
fn a_runtime_that_is_kept_but_not_driven_holds_up_no_call_on_another_one() {
    let idle = current_thread();
    let (server, node) = connected_on(&idle);
    let other = current_thread();
    let (release, within) = (acquire("k"), 5 * MS);
    for _ in 0..3 {
        let error = other.block_on(node.execute(&release, within)).unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
        assert!(server.open().contains(&0));
    }
    other.block_on(answered(&server, &node));
    assert_eq!(server.connects(), 2, "on the runtime that is driven");
    // As would a call that no runtime of tokio's serves.
    let (_, node) = connected_on(&idle);
    let thread = ThreadRuntime::shared();
    let answer = thread.block_on(node.execute(&release, within)).unwrap();
    assert_eq!(answer.unwrap_err().kind(), NodeErrorKind::NoAnswer);
}

#[test]
fn a_call_from_another_runtime_learns_that_the_runtime_of_its_connection_has_ended() {
    let first = current_thread();
    let (_, node) = connected_on(&first);
    current_thread().block_on(async {
        let command = acquire("k");
        let mut call = node.execute(&command, LONG);
        assert!(futures::poll!(&mut call).is_pending());
        first.shutdown_background();
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), NodeErrorKind::Connection, "{error}");
    });
}

#[test]
fn a_node_works_on_one_runtime_after_the_other() {
    let server = Server::default();
    let node = ClientNode::new(server.client());
    for _ in 0..3 {
        current_thread().block_on(answered(&server, &node));
    }
    assert_eq!(server.connects(), 3);
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_in_paused_time() {
    let server = Server::default();
    let node = ClientNode::new(server.client());
    answered(&server, &node).await;
    let start = tokio::time::Instant::now();
    let error = node.execute(&acquire("k"), LONG).await.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
    let took = start.elapsed();
    assert!(took >= LONG && took < LONG + 10 * MS, "{took:?}");
}
