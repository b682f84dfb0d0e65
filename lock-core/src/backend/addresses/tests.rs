use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::FutureExt;
use futures::executor::block_on;

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| address(text)).collect()
}

fn several() -> Found {
    Ok(addresses(&[
        "[::1]:1",
        "10.0.0.2:1",
        "10.0.0.1:1",
        "10.0.0.2:1",
    ]))
}

fn found_by(resolve: fn(&str, u16) -> Found) -> Addresses {
    Addresses {
        resolve,
        ..Addresses::default()
    }
}

/// Where a connect ends, if all addresses answer.
fn reached(addresses: &Addresses) -> SocketAddr {
    let connected = addresses.connect("name", 1, |address| async move { io::Result::Ok(address) });
    block_on(connected).unwrap()
}

#[test]
fn the_order_of_addresses_is_the_same_whatever_the_system_says() {
    let sorted = addresses(&["10.0.0.1:1", "10.0.0.2:1", "[::1]:1"]);
    let mut found = several().unwrap();
    for _ in 0..found.len() {
        found.rotate_left(1);
        assert_eq!(order(found.clone(), None), sorted);
    }
    for (wrong, first) in [
        ("10.0.0.1:1", "10.0.0.2:1"),
        ("10.0.0.2:1", "[::1]:1"),
        ("[::1]:1", "10.0.0.1:1"),
        // It is gone.
        ("10.0.0.1:9", "10.0.0.2:1"),
        ("[::2]:1", "10.0.0.1:1"),
    ] {
        let order = order(found.clone(), Some(address(wrong)));
        assert_eq!(order[0], address(first), "{wrong}");
        assert_eq!(order.len(), 3);
    }
    assert_eq!(order(vec![], Some(address("10.0.0.1:1"))), []);
}

#[test]
fn behind_a_wrong_server_the_next_address_goes_first_and_stays_so() {
    let addresses = found_by(|_, _| several());
    assert_eq!(reached(&addresses), address("10.0.0.1:1"));
    assert_eq!(reached(&addresses), address("10.0.0.1:1"));
    addresses.prefer_another();
    assert_eq!(reached(&addresses), address("10.0.0.2:1"));
    assert_eq!(reached(&addresses), address("10.0.0.2:1"));
    addresses.prefer_another();
    assert_eq!(reached(&addresses), address("[::1]:1"));
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        locked(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn several_addresses_are_told_once() {
    // With one subscriber alone, tracing keeps to the answer of the thread that asked it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), || {
        let addresses = found_by(|_, _| several());
        reached(&addresses);
        reached(&addresses);
        reached(&found_by(|_, _| Ok(vec![address("10.0.0.1:1")])));
    });
    let log = String::from_utf8(locked(&log.0).clone()).unwrap();
    assert_eq!(log.matches("has several addresses").count(), 1, "{log}");
    assert!(log.contains("WARN"), "{log}");
}

#[test]
fn an_address_that_fails_or_hangs_is_followed_by_the_next_one() {
    let addresses = found_by(|_, _| several());
    let tried = Mutex::new(Vec::new());
    let connect = |address: SocketAddr| {
        let mut tried = locked(&tried);
        tried.push(address);
        let number = tried.len();
        async move {
            match number {
                1 => Err(io::Error::other("refused")),
                2 => pending().await,
                _ => Ok(address),
            }
        }
    };
    let connected = block_on(addresses.connect("name", 1, connect));
    assert_eq!(connected.unwrap(), address("[::1]:1"));
    let all = order(several().unwrap(), None);
    assert_eq!(*locked(&tried), all);
}

#[test]
fn the_error_is_that_of_the_first_address_that_failed() {
    let addresses = found_by(|_, _| several());
    let connect = |address: SocketAddr| async move {
        io::Result::<()>::Err(io::Error::other(address.to_string()))
    };
    let error = block_on(addresses.connect("name", 1, connect)).unwrap_err();
    assert_eq!(error.to_string(), "10.0.0.1:1");

    let nowhere = found_by(|_, _| Ok(vec![]));
    let error = block_on(nowhere.connect("name", 1, connect)).unwrap_err();
    assert_eq!(error.to_string(), "the host has no address");
    let unknown = found_by(|host, _| Err(io::Error::other(format!("no {host}"))));
    let error = block_on(unknown.connect("name", 1, connect)).unwrap_err();
    assert_eq!(error.to_string(), "no name");
}

#[test]
fn an_address_is_not_looked_up() {
    let addresses = found_by(|_, _| panic!("looked up"));
    for text in ["127.0.0.1", "::1"] {
        let found = addresses.find(text, 1).now_or_never().unwrap().unwrap();
        assert_eq!(found, [SocketAddr::new(text.parse().unwrap(), 1)]);
    }
}

#[test]
fn one_look_up_runs_at_a_time_and_nobody_has_to_wait_for_its_end() {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let addresses = found_by(|_, _| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        while !GOES_ON.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        several()
    });
    for _ in 0..100 {
        assert!(addresses.find("name", 1).now_or_never().is_none());
    }
    assert!(
        locked(&addresses.look_up).waiting.len() <= 1,
        "callers that are gone"
    );
    #[cfg(feature = "tokio")]
    {
        // It ends while the look-up hangs.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let find = addresses.find("name", 1);
            assert!(
                tokio::time::timeout(Duration::from_millis(1), find)
                    .await
                    .is_err()
            );
        });
        drop(runtime);
    }
    let mut find = Box::pin(addresses.find("name", 1));
    assert!((&mut find).now_or_never().is_none());
    GOES_ON.store(true, Ordering::SeqCst);
    assert_eq!(block_on(find).unwrap(), several().unwrap());
    assert_eq!(ASKED.load(Ordering::SeqCst), 1);
    block_on(addresses.find("name", 1)).unwrap();
    assert_eq!(ASKED.load(Ordering::SeqCst), 2, "the next one asks anew");
}
