//! Watches a lock as its holder would, and listens for its loss.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, select};
use lock_core::runtime::BoxFuture;
use lock_core::{LockGuard, Loss};

use super::client::SimClient;
use super::coverage::Mark;

/// For this long after the end of its guard no loss may be told.
const LISTENS_FOR: Duration = Duration::from_secs(2);

/// A holder hears of a wall clock that ran ahead within this time.
const HEARS_WITHIN: Duration = Duration::from_secs(1);

/// Watches a guard until a while after its end.
struct Watcher {
    client: SimClient,
    guard: Weak<LockGuard>,
    holds: Range<usize>,
    ttl: Duration,
    lost: BoxFuture<'static, Loss>,
    /// Ends with the guard.
    ended: oneshot::Receiver<()>,
}

/// What a watcher saw first.
enum Seen {
    Lost(Loss),
    Ended,
    Nothing,
}

/// Watches a guard from now on, until the returned sender is dropped.
pub(crate) fn watch(
    client: &SimClient,
    guard: &Arc<LockGuard>,
    holds: Range<usize>,
    ttl: Duration,
) -> oneshot::Sender<()> {
    let (sender, ended) = oneshot::channel();
    let watcher = Watcher {
        client: client.clone(),
        guard: Arc::downgrade(guard),
        holds,
        ttl,
        lost: guard.lost(),
        ended,
    };
    client.shared.spawn(client.id, Box::pin(watcher.run()));
    sender
}

impl Watcher {
    async fn run(mut self) {
        let began = self.client.runtime.now();
        let mut ends_at = began;
        while let Some(left) = self.remaining() {
            if left.is_zero() {
                break;
            }
            self.client.shared.world().renew_holds(&self.holds, left);
            ends_at = self.client.runtime.now() + left;
            // A lock that is extended automatically is extended before that.
            let pause = if left > self.ttl / 16 { left / 2 } else { left };
            match self.wait(pause).await {
                Seen::Lost(loss) => return self.lost(loss).await,
                Seen::Ended => break,
                Seen::Nothing => {}
            }
        }
        if self.client.runtime.now() > began + self.ttl {
            self.client.mark(Mark::Renewed);
        }
        if self.is_held() {
            // Its time is over. If it is too early, the wall clock ran ahead.
            let is_early = self.client.runtime.now() < ends_at;
            let patience = if is_early {
                HEARS_WITHIN
            } else {
                Duration::ZERO
            };
            match self.wait(patience + Duration::from_micros(1)).await {
                Seen::Lost(loss) => return self.lost(loss).await,
                Seen::Nothing if self.is_held() => {
                    let text = "the validity ended, and nobody was told".to_owned();
                    return self.client.violation("loss", text);
                }
                _ => {}
            }
        }
        let rest = select(
            self.lost,
            self.client.runtime.sleep(self.ttl.min(LISTENS_FOR)),
        );
        if let Either::Left((loss, _)) = rest.await {
            let mut world = self.client.shared.world();
            world.judge_loss(&self.holds, loss, self.ttl);
        }
    }

    async fn lost(mut self, loss: Loss) {
        self.client
            .shared
            .world()
            .judge_loss(&self.holds, loss, self.ttl);
        // It is not valid any more, and never again.
        let pause = (self.ttl / 4).min(LISTENS_FOR);
        self.lost = Box::pin(std::future::pending());
        for _ in 0..8 {
            let Some(left) = self.remaining() else {
                return;
            };
            if !left.is_zero() {
                let text = format!("a lock that was lost is valid for {left:?}");
                return self.client.violation("renewal", text);
            }
            self.client.shared.world().renew_holds(&self.holds, left);
            if let Seen::Ended = self.wait(pause).await {
                return;
            }
        }
    }

    async fn wait(&mut self, pause: Duration) -> Seen {
        let sleep = self.client.runtime.sleep(pause);
        match select(&mut self.lost, select(&mut self.ended, sleep)).await {
            Either::Left((loss, _)) => Seen::Lost(loss),
            Either::Right((Either::Left(_), _)) => Seen::Ended,
            Either::Right((Either::Right(_), _)) => Seen::Nothing,
        }
    }

    /// Returns what remains of the validity; `None` if the guard is gone.
    fn remaining(&self) -> Option<Duration> {
        self.guard.upgrade().map(|guard| guard.remaining())
    }

    /// Returns whether the holder has not given the lock back.
    fn is_held(&self) -> bool {
        let world = self.client.shared.world();
        world.ledger.holds[self.holds.start].ended_at.is_none()
    }
}
