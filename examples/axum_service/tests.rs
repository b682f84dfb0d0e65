//! The whole service without a port and without a server, in virtual time.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header::RETRY_AFTER};
use lock_core::Redlock;
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use crate::app::App;
use crate::payments::OrderId;

const WAIT: Duration = Duration::from_secs(1);
const WORK: Duration = Duration::from_secs(5);

/// One instance of the service, and the nodes behind it.
struct Service {
    app: App,
    locks: Redlock,
    nodes: Vec<MemoryNode>,
}

/// What a client sees.
#[derive(Debug)]
struct Seen {
    status: u16,
    retry_after: Option<String>,
    body: String,
}

fn service(wait: Duration, work: Duration) -> Service {
    let nodes = MemoryNode::several(3);
    let locks: Redlock = Redlock::new(nodes.clone()).unwrap().into();
    let app = App::new(locks.clone(), wait, work);
    Service { app, locks, nodes }
}

impl Service {
    fn router(&self) -> Router {
        self.app.clone().router()
    }

    async fn send(&self, method: &str, path: &str) -> Seen {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        let response = self.router().oneshot(request).await.unwrap();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        Seen {
            status,
            retry_after,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn charge(&self, order: &str) -> Seen {
        self.send("POST", &format!("/orders/{order}/charge")).await
    }

    fn is_charged(&self, order: &str) -> bool {
        let order = OrderId::parse(order.into()).unwrap();
        self.app.payments().receipt(&order).is_some()
    }

    fn break_nodes(&self, count: usize, fault: &Fault) {
        for node in &self.nodes[..count] {
            node.set_fault(fault.clone());
        }
    }

    fn keys(&self) -> usize {
        self.nodes.iter().map(|node| node.keys().len()).sum()
    }

    /// Waits until no key is left anywhere, for a second at most.
    async fn no_key_is_left(&self) -> bool {
        for _ in 0..100 {
            if self.keys() == 0 {
                return true;
            }
            sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_requests_for_one_order_one_gets_409_after_its_deadline() {
    let service = service(WAIT, WORK);
    let second = async {
        sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        (service.charge("7").await, began.elapsed())
    };
    let (first, (second, waited)) = tokio::join!(service.charge("7"), second);
    assert_eq!(first.status, 200);
    assert_eq!(first.body, r#"{"order":"7","receipt":1}"#);
    assert_eq!(second.status, 409, "{second:?}");
    assert!(second.body.contains("another request has this order"));
    assert!(waited <= WAIT && waited > WAIT / 2, "{waited:?}");
    assert!(service.no_key_is_left().await);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_wait_longer_finds_the_order_charged() {
    let service = service(WORK * 2, WORK);
    let (first, second) = tokio::join!(service.charge("7"), service.charge("7"));
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body, "it was charged twice");
}

#[tokio::test(start_paused = true)]
async fn orders_do_not_wait_for_each_other() {
    let service = service(WAIT, WORK);
    let began = Instant::now();
    let (first, second) = tokio::join!(service.charge("7"), service.charge("8"));
    assert_eq!((first.status, second.status), (200, 200));
    assert!(began.elapsed() < WORK * 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_of_nodes_it_is_503_and_says_when_to_ask_again() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let service = service(WAIT, WORK);
        service.break_nodes(2, &fault);
        let seen = service.charge("7").await;
        assert_eq!(seen.status, 503, "{seen:?}");
        assert_eq!(seen.retry_after.as_deref(), Some("1"));
        assert!(!seen.body.contains("memory"), "it names a node: {seen:?}");
        assert!(!service.is_charged("7"));

        service.nodes.iter().for_each(MemoryNode::heal);
        assert_eq!(service.charge("7").await.status, 200, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_of_nodes_that_fails_is_not_seen_by_clients() {
    for fault in [Fault::Refuse, Fault::Hang, Fault::LoseReply] {
        let service = service(WAIT, WORK);
        service.break_nodes(1, &fault);
        assert_eq!(service.charge("7").await.status, 200, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_no_key_and_no_charge_behind() {
    let service = service(WAIT, WORK);
    // The future is dropped in the middle of the work, as axum does with that of a handler.
    let gone = timeout(WORK / 2, service.charge("7")).await;
    assert!(gone.is_err());
    assert!(service.keys() > 0, "it had the lock");
    assert!(service.no_key_is_left().await);
    assert!(!service.is_charged("7"));
    assert_eq!(service.charge("7").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_while_it_waits_disturbs_nobody() {
    let service = service(WORK, WORK);
    let impatient = timeout(WORK / 2, service.charge("7"));
    let (first, impatient) = tokio::join!(service.charge("7"), impatient);
    assert_eq!(first.status, 200);
    assert!(impatient.is_err());
    assert!(service.no_key_is_left().await);
}

#[tokio::test(start_paused = true)]
async fn work_may_take_longer_than_the_ttl() {
    let service = service(WAIT, Duration::from_secs(60));
    let second = async {
        sleep(Duration::from_secs(40)).await;
        service.charge("7").await
    };
    let (first, second) = tokio::join!(service.charge("7"), second);
    assert_eq!((first.status, second.status), (200, 409));
}

/// The lock is taken away in the middle of the work.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_stops_the_work() {
    let service = service(WAIT, Duration::from_secs(60));
    let steal = async {
        sleep(WORK).await;
        for node in &service.nodes {
            assert!(node.remove("order:7"));
            node.set_foreign("order:7", "somebody else");
        }
    };
    let (seen, ()) = tokio::join!(service.charge("7"), steal);
    assert_eq!((seen.status, seen.retry_after.is_some()), (503, true));
    assert!(!service.is_charged("7"));
}

#[tokio::test(start_paused = true)]
async fn health_tells_whether_locks_can_be_had_and_nothing_else() {
    let service = service(WAIT, WORK);
    service.break_nodes(1, &Fault::Refuse);
    let seen = service.send("GET", "/health").await;
    assert_eq!((seen.status, &*seen.body), (200, r#"{"locks":"ok"}"#));
    service.break_nodes(2, &Fault::Hang);
    let seen = service.send("GET", "/health").await;
    let expected = (503, r#"{"locks":"unavailable"}"#);
    assert_eq!((seen.status, &*seen.body), expected);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_none_is_400() {
    let service = service(WAIT, WORK);
    for order in ["a:b", "a%20b", "a%2Fb", &"7".repeat(37)] {
        assert_eq!(service.charge(order).await.status, 400, "{order}");
    }
    assert_eq!(service.send("GET", "/orders/7/charge").await.status, 405);
    assert_eq!(service.nodes[0].calls().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_a_request_end_and_nothing_is_charged_after_it() {
    let service = service(WAIT, WORK);
    let shutdown = async {
        sleep(WORK / 2).await;
        service.locks.shutdown().await
    };
    let (seen, done) = tokio::join!(service.charge("7"), shutdown);
    done.unwrap();
    assert_eq!(seen.status, 200, "{seen:?}");
    assert!(service.is_charged("7"));
    assert!(service.no_key_is_left().await);
    assert_eq!(service.charge("8").await.status, 503);
    assert!(!service.is_charged("8"));
}
