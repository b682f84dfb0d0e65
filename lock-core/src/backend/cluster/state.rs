//! What a node of a cluster knows, and the calls that wait until it knows anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use super::ClusterClient;
use super::member::Member;
use super::refresh;
use super::refreshes::Refreshes;
use super::routes::Routes;
use super::slots::SlotMap;
use super::turns::Turns;
use crate::backend::dialing::{Admission, Dialing};
use crate::backend::keeper::Settings;
use crate::backend::place::Place;
use crate::backend::queue::{Answer, Queue, Ticket, Waiting};
use crate::node::{Command, NodeError, Reply};
use crate::runtime::{Runtime, ambient};
use crate::sync::locked;

pub(super) struct State<C: ClusterClient> {
    pub(super) label: String,
    /// Those that were listed: they are asked for the others.
    pub(super) servers: Arc<[C]>,
    pub(super) settings: Settings,
    pub(super) turns: Turns,
    /// For calls to find without the lock, once they are known. They change under the lock.
    routes: ArcSwapOption<Routes<C>>,
    asking: Mutex<Asking>,
}

/// The servers are asked where slots are.
#[derive(Default)]
struct Asking {
    dialing: Dialing,
    refreshes: Refreshes,
    /// Calls that wait for the first map.
    queue: Queue,
    /// How often the servers were asked, so that it is not always the same ones.
    round: usize,
}

/// When a call has to end.
pub(super) struct Deadline {
    runtime: Arc<dyn Runtime>,
    until: Duration,
}

impl Deadline {
    fn new(runtime: Arc<dyn Runtime>, since: Duration, within: Duration) -> Self {
        let until = since.saturating_add(within);
        Self { runtime, until }
    }

    pub(super) fn left(&self) -> Duration {
        self.until.saturating_sub(self.runtime.now())
    }

    /// An earlier one, after this share of what is left.
    pub(super) fn sooner(&self, share: f64) -> Self {
        let now = self.runtime.now();
        Self {
            runtime: Arc::clone(&self.runtime),
            until: now.saturating_add(self.until.saturating_sub(now).mul_f64(share)),
        }
    }
}

impl<C: ClusterClient> State<C> {
    pub(super) fn new(label: String, servers: Arc<[C]>, settings: Settings) -> Self {
        Self {
            label,
            servers,
            settings,
            turns: Turns::new(),
            routes: ArcSwapOption::empty(),
            asking: Mutex::default(),
        }
    }

    pub(super) fn runtime(&self) -> Arc<dyn Runtime> {
        match &self.settings.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => ambient(),
        }
    }

    pub(super) fn routes(&self) -> Option<Arc<Routes<C>>> {
        self.routes.load_full()
    }

    /// Sends the command, and waits for its reply.
    pub(super) async fn execute(
        self: &Arc<Self>,
        command: &Command,
        within: Duration,
    ) -> Result<Reply, NodeError> {
        loop {
            if let Some(routes) = self.routes.load_full() {
                let runtime = self.runtime();
                let now = runtime.now();
                return self
                    .run_by(&routes, command, Deadline::new(runtime, now, within))
                    .await;
            }
            // Boxed, so that the common call has no room for it.
            if let Some(ticket) = self.enter_queue(command, within)? {
                return Box::pin(self.wait(ticket)).await;
            }
        }
    }

    #[cold]
    async fn wait(&self, ticket: Ticket) -> Result<Reply, NodeError> {
        match ticket.sent().await {
            Some(answer) => answer?.await,
            None => Err(locked(&self.asking).dialing.still_connecting()),
        }
    }

    /// Lets a call wait for the first map, and asks for it if nobody does. `None` if there is one by now.
    #[cold]
    fn enter_queue(
        self: &Arc<Self>,
        command: &Command,
        within: Duration,
    ) -> Result<Option<Ticket>, NodeError> {
        let runtime = self.runtime();
        let timer = runtime.sleep(within);
        let now = runtime.now();
        let mut asking = locked(&self.asking);
        if self.routes.load().is_some() {
            return Ok(None);
        }
        let timeout = self.settings.connect_timeout;
        let admission = asking.dialing.admit(now, within, timeout)?;
        let given_up = match admission {
            Admission::Wait => Queue::default(),
            Admission::Connect(_) => std::mem::take(&mut asking.queue),
        };
        let ticket = asking.queue.enter(Waiting {
            command: command.clone(),
            within,
            since: now,
            timer,
        });
        drop(asking);
        given_up.fail(&NodeError::not_sent(
            "the search for the cluster was cut off",
        ));
        if let Admission::Connect(number) = admission {
            self.ask(number, runtime);
        }
        ticket.map(Some)
    }

    /// Something is not where it was: the servers are asked again, if nobody asks them and it is time.
    #[cold]
    pub(super) fn look_again(self: &Arc<Self>) {
        let runtime = self.runtime();
        let now = runtime.now();
        let timeout = self.settings.connect_timeout;
        let mut asking = locked(&self.asking);
        if !asking.refreshes.is_due(now) {
            return;
        }
        let number = asking.dialing.look_elsewhere(now, timeout);
        drop(asking);
        if let Some(number) = number {
            self.ask(number, runtime);
        }
    }

    /// Not to be called under the lock: a runtime that has ended drops the task here, which ends it.
    fn ask(self: &Arc<Self>, number: u64, runtime: Arc<dyn Runtime>) {
        let round = {
            let mut asking = locked(&self.asking);
            asking.round = asking.round.wrapping_add(1);
            asking.round
        };
        refresh::start(self, number, round, runtime);
    }

    pub(super) fn member(&self, place: &Place) -> Member<C> {
        Member::new(&self.servers[0], place, self.settings.clone())
    }

    /// The server at this place, which has the slot from now on, if one is named.
    #[cold]
    pub(super) fn member_at(&self, place: &Place, slot: Option<u16>) -> Option<Arc<Member<C>>> {
        let asking = locked(&self.asking);
        let routes = self.routes.load_full()?;
        let is_there = slot.is_none_or(|slot| routes.is_at(slot, place));
        if let Some(known) = routes.at(place).filter(|_| is_there) {
            return Some(Arc::clone(known));
        }
        let routes = Arc::new(routes.with(place, slot, |place| self.member(place))?);
        let before = self.routes.swap(Some(Arc::clone(&routes)));
        drop(asking);
        // Not under the lock, since the client's code may be dropped with it.
        drop(before);
        routes.at(place).cloned()
    }

    /// What was known before the servers were asked.
    pub(super) fn map(&self) -> SlotMap {
        let routes = self.routes.load();
        let map = routes.as_ref().map(|routes| routes.map().clone());
        map.unwrap_or_else(SlotMap::empty)
    }

    /// The servers have said where slots are. The calls that wait leave before any that comes later.
    pub(super) fn learned(self: &Arc<Self>, number: u64, map: SlotMap, runtime: &Arc<dyn Runtime>) {
        let make = |place: &Place| self.member(place);
        let (first, _) = Routes::empty().redrawn(map, make);
        let first = Arc::new(first);
        loop {
            let now = runtime.now();
            let mut asking = locked(&self.asking);
            if !asking.dialing.renew(number, now) {
                return;
            }
            let before = self.routes.load_full();
            if before.is_none() && !asking.queue.is_empty() {
                let queue = std::mem::take(&mut asking.queue);
                // The client's code is not run under the lock. Meanwhile calls enter the queue anew.
                drop(asking);
                queue.send(|call| self.begin(&first, runtime, call));
                continue;
            }
            let (routes, gone, is_news) = match &before {
                None => (first, Vec::new(), true),
                Some(before) => {
                    let is_news = !before.map().says_the_same(first.map());
                    let (routes, gone) = before.redrawn(first.map().clone(), make);
                    (Arc::new(routes), gone, is_news)
                }
            };
            asking.dialing.end();
            asking.dialing.succeeded();
            asking.refreshes.done(now, is_news, runtime.random());
            self.routes.store(Some(routes));
            drop(asking);
            gone.iter().for_each(|member| member.node.retire());
            return;
        }
    }

    /// Sends what has waited for the first map.
    fn begin(
        self: &Arc<Self>,
        routes: &Arc<Routes<C>>,
        runtime: &Arc<dyn Runtime>,
        call: Waiting,
    ) -> Answer {
        let (state, routes) = (Arc::clone(self), Arc::clone(routes));
        let deadline = Deadline::new(Arc::clone(runtime), call.since, call.within);
        Box::pin(async move { state.run_by(&routes, &call.command, deadline).await })
    }

    /// No server has said where slots are.
    pub(super) fn not_learned(&self, number: u64, error: NodeError, runtime: &dyn Runtime) {
        let (now, random) = (runtime.now(), runtime.random());
        let mut asking = locked(&self.asking);
        if asking.dialing.renew(number, now) {
            asking.dialing.end();
            asking.dialing.failed(now, random, error.clone());
            asking.refreshes.done(now, false, random);
            let queue = std::mem::take(&mut asking.queue);
            drop(asking);
            queue.fail(&error);
        }
    }
}
