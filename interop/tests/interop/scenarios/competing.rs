//! Both sides want the lock again and again.

use lock_core::{DistributedLockExt, LockRequest};

use crate::count::{increment, number, pause};
use crate::peer::{Ask, Told};
use crate::scene::{LONG, Scene, ask};

/// Rounds for each side, at least.
const ROUNDS: u64 = 30;

pub(super) async fn no_update_is_lost_when_both_compete(scene: &mut Scene) {
    let ours = scene.ours.clone();
    let server = &scene.servers[0];
    let key = "k";
    let counting = scene.theirs.ask(Ask::Count {
        ttl: LONG,
        rounds: ROUNDS,
        key,
    });
    // Both go on until both have done their rounds, so that they compete to the end.
    let we_count = async {
        let mut connection = server.connect().unwrap();
        let request = LockRequest::new(key).ttl(LONG).max_wait(LONG);
        let mut done = 0;
        while done < ROUNDS || number(&mut connection, "k:theirs") < ROUNDS {
            let guard = ours.lock(&request).await.unwrap();
            increment(&mut connection, key).await;
            assert!(guard.is_valid());
            guard.release().await.unwrap();
            done += 1;
            pause().await;
        }
        ask(server, &["SET", "k:stop", "1"]);
        done
    };
    let (theirs, ours) = tokio::join!(counting, we_count);
    let Told::Counted(theirs) = theirs else {
        panic!("{theirs:?}");
    };
    let counted = number(&mut server.connect().unwrap(), "k:counter");
    assert_eq!(counted, ours + theirs, "{ours} of ours, {theirs} of theirs");
}
