//! A counter in Redis that nothing but the lock protects.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lock_core::Reply;
use lock_testkit::Connection;
use tokio::time::sleep;

use crate::peer::{Ask, Peer, Told};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// The number that a key holds; zero if there is none.
pub(crate) fn number(connection: &mut Connection, key: &str) -> u64 {
    match connection.command(&["GET", key]).unwrap() {
        Reply::Bytes(value) => String::from_utf8(value).unwrap().parse().unwrap(),
        _ => 0,
    }
}

/// Adds one in a way that loses the updates of whoever does so at the same time.
pub(crate) async fn increment(connection: &mut Connection, key: &str) {
    let counter = format!("{key}:counter");
    let before = number(connection, &counter);
    sleep(MS).await;
    let after = (before + 1).to_string();
    connection.command(&["SET", &counter, &after]).unwrap();
}

/// Leaves the lock to the other side for a moment.
pub(crate) async fn pause() {
    sleep(Duration::from_micros(RandomState::new().hash_one(0) % 5000)).await;
}

/// [`Ask::Count`], for peers that have no program of their own.
pub(crate) async fn count(
    peer: &mut dyn Peer,
    mut connection: Connection,
    key: &str,
    ttl: Duration,
    rounds: u64,
) -> Told {
    let keys = &[key];
    let [stop, theirs] = ["stop", "theirs"].map(|name| format!("{key}:{name}"));
    let mut done = 0;
    while done < rounds || number(&mut connection, &stop) == 0 {
        assert_eq!(peer.ask(Ask::Acquire { ttl, keys }).await, Told::Yes);
        increment(&mut connection, key).await;
        connection.command(&["INCR", &theirs]).unwrap();
        peer.ask(Ask::Release).await;
        done += 1;
        pause().await;
    }
    Told::Counted(done)
}
