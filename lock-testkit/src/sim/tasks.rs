//! The tasks of all clients, run one poll at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use lock_core::runtime::BoxFuture;

use super::chance::Chance;
use super::locked;

/// The number of a client of the simulation: a process with clocks and tasks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub(crate) usize);

impl ClientId {
    /// Returns the number, which counts from 0 in the order in which clients were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Work,
    /// It connects, and lives as long as the connection. It is not counted.
    Connection,
}

/// A task of one client.
pub(crate) struct Task {
    kind: Kind,
    client: ClientId,
    future: Option<BoxFuture<'static, ()>>,
    wake: Arc<TaskWaker>,
}

/// The tasks, by their number.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Vec<Option<Task>>,
    free: Vec<usize>,
    /// How many tasks of each client have not ended, not counting those of connections.
    alive: Vec<usize>,
    peak: usize,
}

/// The tasks that want to be polled.
#[derive(Debug, Default)]
pub(crate) struct Ready(Mutex<Vec<usize>>);

impl Kind {
    fn count(self) -> usize {
        usize::from(self == Self::Work)
    }
}

struct TaskWaker {
    task: usize,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            locked(&self.ready.0).push(self.task);
        }
    }
}

impl Ready {
    /// Takes any of the tasks that are ready: real executors promise no order.
    pub(crate) fn take(&self, chance: &mut Chance) -> Option<usize> {
        let mut ready = locked(&self.0);
        match ready.len() {
            0 => None,
            1 => ready.pop(),
            len => Some(ready.swap_remove(chance.index(len))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }

    /// Tasks that were held back are ready again.
    pub(crate) fn put_back(&self, tasks: &mut VecDeque<usize>) {
        locked(&self.0).extend(tasks.drain(..));
    }
}

impl Tasks {
    /// Adds a task, which is ready to be polled.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        client: ClientId,
        future: BoxFuture<'static, ()>,
        ready: &Arc<Ready>,
    ) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        let wake = Arc::new(TaskWaker {
            task: number,
            is_ready: AtomicBool::new(false),
            ready: Arc::clone(ready),
        });
        wake.wake_by_ref();
        self.tasks[number] = Some(Task {
            kind,
            client,
            future: Some(future),
            wake,
        });
        if self.alive.len() <= client.0 {
            self.alive.resize(client.0 + 1, 0);
        }
        self.alive[client.0] += kind.count();
        self.peak = self.peak.max(self.alive[client.0]);
    }

    /// Returns the client of a task that is ready; `None` if the task has ended.
    pub(crate) fn client(&self, number: usize) -> Option<ClientId> {
        Some(self.tasks.get(number)?.as_ref()?.client)
    }

    /// Takes a task's future out for a poll.
    pub(crate) fn take(&mut self, number: usize) -> Option<(BoxFuture<'static, ()>, Waker)> {
        let task = self.tasks.get_mut(number)?.as_mut()?;
        task.wake.is_ready.store(false, Ordering::Relaxed);
        let future = task.future.take()?;
        Some((future, Waker::from(Arc::clone(&task.wake))))
    }

    /// Puts a future back that is not ready. Returns it if its task is gone.
    pub(crate) fn put_back(
        &mut self,
        number: usize,
        future: BoxFuture<'static, ()>,
    ) -> Option<BoxFuture<'static, ()>> {
        match self.tasks.get_mut(number).and_then(Option::as_mut) {
            Some(task) => {
                task.future = Some(future);
                None
            }
            None => Some(future),
        }
    }

    /// Removes a task that has ended.
    pub(crate) fn end(&mut self, number: usize) {
        if let Some(task) = self.tasks.get_mut(number).and_then(Option::take) {
            self.alive[task.client.0] -= task.kind.count();
            self.free.push(number);
        }
    }

    /// Takes all tasks of a client, or of all clients. The caller drops them, outside of any lock.
    #[must_use]
    pub(crate) fn take_all(&mut self, of: Option<ClientId>) -> Vec<Task> {
        let mut taken = Vec::new();
        for number in 0..self.tasks.len() {
            let is_of = |task: &Task| of.is_none_or(|client| client == task.client);
            if self.tasks[number].as_ref().is_some_and(is_of)
                && let Some(task) = self.tasks[number].take()
            {
                // The number is not used again: there may still be a waker of the old task.
                self.alive[task.client.0] -= task.kind.count();
                taken.push(task);
            }
        }
        taken
    }

    /// Returns how many tasks of a client have not ended, not counting those of connections.
    pub(crate) fn alive(&self, client: ClientId) -> usize {
        self.alive.get(client.0).copied().unwrap_or_default()
    }

    /// Returns the most tasks that any client ever had, not counting those of connections.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }
}
