//! What all parts of a simulation share, and the loop that runs it.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::channel::oneshot;
use lock_core::runtime::{BoxFuture, Runtime};

use super::locked;
use super::queue::Event;
use super::tasks::{ClientId, Kind, Ready, Tasks};
use super::world::World;

/// The world, and the tasks in it. One thread uses them, so that a lock is never waited for: the
/// locks are there since the traits of the production code are for values that threads share.
///
/// What a task does may come back to the world. So a task is polled, woken and dropped when the
/// world's lock is not held.
pub(crate) struct Shared {
    world: Mutex<World>,
    tasks: Mutex<Tasks>,
    ready: Arc<Ready>,
}

impl Shared {
    pub(crate) fn new(world: World) -> Arc<Self> {
        Arc::new(Self {
            world: Mutex::new(world),
            tasks: Mutex::default(),
            ready: Arc::default(),
        })
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        locked(&self.world)
    }

    pub(crate) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        locked(&self.tasks)
    }

    /// Sleeps for this long by the client's clock.
    pub(crate) fn sleep(&self, client: ClientId, duration: Duration) -> BoxFuture<'static, ()> {
        let (timer, fired) = oneshot::channel();
        let mut world = self.world();
        let clock = world.clients[client.0].monotonic;
        let wanted = clock.at(world.now).saturating_add(duration);
        let at = clock.true_at(wanted).max(world.now);
        world.queue.push(at, Event::Timer(timer));
        Box::pin(async move {
            if fired.await.is_err() {
                // The simulation has ended.
                pending().await
            }
        })
    }

    pub(crate) fn spawn(&self, client: ClientId, task: BoxFuture<'static, ()>) {
        self.spawn_as(Kind::Work, client, task);
    }

    fn spawn_as(&self, kind: Kind, client: ClientId, task: BoxFuture<'static, ()>) {
        let is_gone = {
            let world = self.world();
            world.has_ended || world.clients[client.0].is_dead
        };
        // A task that is not taken is dropped here, outside of the locks.
        if !is_gone {
            self.tasks().add(kind, client, task, &self.ready);
        }
    }

    /// Runs all that happens up to `limit`, which is the time then.
    pub(crate) fn run_until(&self, limit: Duration) {
        loop {
            self.settle();
            while self.poll_one() {}
            let mut world = self.world();
            let Some((at, event)) = world.queue.pop(limit) else {
                world.now = world.now.max(limit);
                return;
            };
            world.happen(at, event);
        }
    }

    /// Wakes and drops the tasks that the last events concern.
    fn settle(&self) {
        let mut world = self.world();
        let deliveries = std::mem::take(&mut world.deliveries);
        let doomed = std::mem::take(&mut world.doomed);
        for client in std::mem::take(&mut world.resumed) {
            self.ready.put_back(&mut world.clients[client.0].held_back);
        }
        self.ready.put_back(&mut world.going_on);
        drop(world);
        for deliver in deliveries {
            deliver();
        }
        for client in doomed {
            let tasks = self.tasks().take_all(Some(client));
            drop(tasks);
        }
    }

    /// Polls one of the tasks that are ready. Returns whether there was one.
    fn poll_one(&self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let mut world = self.world();
        let Some(number) = self.ready.take(&mut world.chance) else {
            return false;
        };
        let mut tasks = self.tasks();
        let Some(client) = tasks.client(number) else {
            return true;
        };
        if world.clients[client.0].is_paused {
            world.clients[client.0].held_back.push_back(number);
            return true;
        }
        if world.stalled.contains(&number) {
            return true;
        }
        world.polled = number;
        world.hash.add(((number as u64) << 16) | 0xf0);
        drop(world);
        let Some((mut future, waker)) = tasks.take(number) else {
            return true;
        };
        drop(tasks);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => self.tasks().end(number),
            Poll::Pending => {
                let orphan = self.tasks().put_back(number, future);
                drop(orphan);
            }
        }
        true
    }

    /// Drops all that is left: tasks hold on to their runtimes, which hold on to this.
    pub(crate) fn end(&self) {
        let events = {
            let mut world = self.world();
            world.has_ended = true;
            world.queue.take_all()
        };
        let tasks = self.tasks().take_all(None);
        drop(tasks);
        drop(events);
    }
}

/// A client's runtime: virtual time, and chance from the seed.
pub(crate) struct ClientRuntime {
    shared: Arc<Shared>,
    client: ClientId,
    /// The kind of the tasks that it spawns.
    kind: Kind,
}

impl ClientRuntime {
    pub(crate) fn new(shared: &Arc<Shared>, client: ClientId) -> Self {
        Self {
            shared: Arc::clone(shared),
            client,
            kind: Kind::Work,
        }
    }

    /// Makes the same runtime for the tasks of connections.
    pub(crate) fn of_connections(shared: &Arc<Shared>, client: ClientId) -> Self {
        Self {
            kind: Kind::Connection,
            ..Self::new(shared, client)
        }
    }
}

impl Runtime for ClientRuntime {
    fn now(&self) -> Duration {
        self.shared.world().monotonic(self.client)
    }

    fn system_time(&self) -> SystemTime {
        let world = self.shared.world();
        SystemTime::UNIX_EPOCH + world.clients[self.client.0].wall.at(world.now)
    }

    fn random(&self) -> [u8; 16] {
        self.shared.world().chance.bytes()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.shared.sleep(self.client, duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.shared.spawn_as(self.kind, self.client, task);
    }
}

impl fmt::Debug for ClientRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimRuntime(client {})", self.client.0)
    }
}
