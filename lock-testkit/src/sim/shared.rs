//! What all parts of a simulation hold on to, and the loop that runs it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use lock_core::runtime::{BoxFuture, Runtime};

use super::locked;
use super::queue::Event;
use super::tasks::{ClientId, Ready, Tasks};
use super::timer::{Sleep, Timer};
use super::world::World;

/// The world, and the tasks in it. One thread uses it, so its locks are never waited for; they are
/// there because the traits of the production code want to be shared between threads.
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

    /// A sleep of so long by the client's clock.
    pub(crate) fn sleep(&self, client: ClientId, duration: Duration) -> Sleep {
        let timer = Arc::<Timer>::default();
        let mut world = self.world();
        let clock = world.clients[client.0].monotonic;
        let wanted = clock.at(world.now).saturating_add(duration);
        let at = clock.true_at(wanted).max(world.now);
        world.queue.push(at, Event::Timer(Arc::clone(&timer)));
        Sleep(timer)
    }

    pub(crate) fn spawn(&self, client: ClientId, task: BoxFuture<'static, ()>) {
        let is_gone = {
            let world = self.world();
            world.has_ended || world.clients[client.0].is_dead
        };
        // A task that is not taken is dropped here, outside of the locks.
        if !is_gone {
            self.tasks().add(client, task, &self.ready);
        }
    }

    /// Runs until nothing is left to do up to `limit`, and lets the time be `limit` then.
    pub(crate) fn run_until(&self, limit: Duration) {
        loop {
            while self.poll_one() {}
            let mut world = self.world();
            let Some((at, event)) = world.queue.pop(limit) else {
                world.now = world.now.max(limit);
                return;
            };
            world.happen(at, event);
            let doomed = std::mem::take(&mut world.doomed);
            for client in std::mem::take(&mut world.resumed) {
                self.ready.put_back(&mut world.clients[client.0].held_back);
            }
            drop(world);
            for client in doomed {
                let tasks = self.tasks().take_all(Some(client));
                drop(tasks);
            }
        }
    }

    /// Polls one of the tasks that are ready; `false` if there was none.
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

    /// Drops all that is left. Tasks hold on to the runtimes, which hold on to this.
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
}

impl ClientRuntime {
    pub(crate) fn new(shared: &Arc<Shared>, client: ClientId) -> Self {
        Self {
            shared: Arc::clone(shared),
            client,
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
        Box::pin(self.shared.sleep(self.client, duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.shared.spawn(self.client, task);
    }
}

impl fmt::Debug for ClientRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimRuntime(client {})", self.client.0)
    }
}
