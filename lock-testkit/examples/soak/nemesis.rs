//! What goes wrong with servers and clients, by chance.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use lock_testkit::RedisServer;
use lock_testkit::sim::Chance;

use crate::BoxError;
use crate::clock::{self, Micros};
use crate::fleet::Fleet;
use crate::forgetting::Forgetting;
use crate::judge::Forgot;
use crate::nodes::{GROUP, MAJORITY, NODES, Nodes};
use crate::work::LONGEST_TTL;

/// How many faults of servers there may be at once: together they may be a majority.
const AT_ONCE: usize = 2;

/// A failover is not begun when less than this is left.
const FAILOVER_TAKES: Duration = Duration::from_secs(25);

/// What went wrong, in words, and when.
pub(crate) type Faults = Vec<(Micros, Micros, String)>;

/// What a round of faults works on.
pub(crate) struct Nemesis<'a> {
    nodes: &'a Nodes,
    fleet: &'a Fleet,
    forgetting: &'a Forgetting,
    end: Instant,
    /// The nodes that have a fault now.
    busy: Mutex<[bool; NODES]>,
    faults: Mutex<Faults>,
    forgot: Mutex<Vec<Forgot>>,
}

/// The faults of one server.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Pause,
    KillWithData,
    KillWithoutData,
    /// Without its data, and away until every lock that it held is over: as the docs ask for.
    KillForLong,
    KillClients,
}

impl Fault {
    /// Servers that have to wait for their turn to forget try it more often.
    fn choose(in_turn: bool, chance: &mut Chance) -> Self {
        match chance.below(100) {
            0..15 if in_turn => Self::KillWithoutData,
            0..30 => Self::Pause,
            30..55 => Self::KillWithData,
            55..60 => Self::KillWithoutData,
            60..70 => Self::KillForLong,
            _ => Self::KillClients,
        }
    }

    fn forgets(self) -> bool {
        matches!(self, Self::KillWithoutData | Self::KillForLong)
    }
}

impl<'a> Nemesis<'a> {
    /// Lets things go wrong for this long, and returns when all is well again.
    pub(crate) fn rage(
        nodes: &'a Nodes,
        fleet: &'a Fleet,
        forgetting: &'a Forgetting,
        length: Duration,
        chance: &mut Chance,
    ) -> Result<(Faults, Vec<Forgot>), BoxError> {
        let nemesis = Self {
            nodes,
            fleet,
            forgetting,
            end: Instant::now() + length,
            busy: Mutex::default(),
            faults: Mutex::default(),
            forgot: Mutex::default(),
        };
        let [mut clients, mut groups] = [(); 2].map(|()| Chance::new(chance.bits()));
        let servers = [(); AT_ONCE].map(|()| Chance::new(chance.bits()));
        thread::scope(|scope| {
            let nemesis = &nemesis;
            let mut running: Vec<_> = servers
                .into_iter()
                .map(|mut chance| scope.spawn(move || nemesis.break_servers(&mut chance)))
                .collect();
            running.push(scope.spawn(move || nemesis.stop_clients(&mut clients)));
            running.push(scope.spawn(move || nemesis.break_group(&mut groups)));
            for thread in running {
                let ended = thread.join().map_err(|_| "a fault panicked".to_owned())?;
                ended.map_err(|error| format!("a fault failed: {error}"))?;
            }
            Ok::<_, BoxError>(())
        })?;
        let faults = nemesis.faults.into_inner().map_err(|e| e.to_string())?;
        let forgot = nemesis.forgot.into_inner().map_err(|e| e.to_string())?;
        Ok((faults, forgot))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn break_servers(&self, chance: &mut Chance) -> Result<(), String> {
        while !self.is_over() {
            thread::sleep(between(chance, 100, 900));
            if chance.below(12) == 0 {
                self.pause_a_majority(chance)?;
                continue;
            }
            let node = chance.index(GROUP);
            if self.take(node) {
                let fault = Fault::choose(self.forgetting.one_at_a_time, chance);
                if !fault.forgets() {
                    self.break_server(node, fault, chance)?;
                } else if self.may_forget(node) {
                    self.break_server(node, fault, chance)?;
                    self.forgetting.end(node, Instant::now());
                }
                self.give_back(node);
            }
        }
        Ok(())
    }

    fn break_server(&self, node: usize, fault: Fault, chance: &mut Chance) -> Result<(), String> {
        let server = &self.nodes.alone[node];
        let from = clock::now();
        let failed = |error| format!("{fault:?} of node {node}: {error}");
        match fault {
            Fault::Pause => self.pause(server, between(chance, 20, 4_000)),
            Fault::KillWithData => server.kill().and_then(|()| {
                thread::sleep(between(chance, 0, 2_000));
                server.restart_with_data()
            }),
            Fault::KillWithoutData => server.kill().and_then(|()| {
                thread::sleep(between(chance, 0, 1_000));
                server.restart()
            }),
            Fault::KillForLong => server.kill().and_then(|()| {
                thread::sleep(LONGEST_TTL + Duration::from_millis(100));
                server.restart()
            }),
            Fault::KillClients => kill_clients(server),
        }
        .map_err(failed)?;
        if fault.forgets() {
            self.forgets(node, from, matches!(fault, Fault::KillForLong));
        }
        self.note(from, format!("{fault:?} of node {node}"));
        Ok(())
    }

    fn pause(
        &self,
        server: &RedisServer,
        length: Duration,
    ) -> Result<(), lock_testkit::ServerError> {
        server.pause()?;
        thread::sleep(length);
        server.resume()
    }

    /// An outage: nothing can be acquired or extended, and what is held ends in time.
    fn pause_a_majority(&self, chance: &mut Chance) -> Result<(), String> {
        let taken: Vec<_> = (0..GROUP).filter(|&node| self.take(node)).collect();
        let from = clock::now();
        let each = |what: fn(&RedisServer) -> Result<(), lock_testkit::ServerError>| {
            let servers = taken.iter().map(|&node| &self.nodes.alone[node]);
            servers.map(what).collect::<Result<Vec<_>, _>>()
        };
        if taken.len() >= MAJORITY {
            let failed = |error| format!("a pause of {taken:?}: {error}");
            each(RedisServer::pause).map_err(failed)?;
            thread::sleep(between(chance, 50, 1_500));
            each(RedisServer::resume).map_err(failed)?;
            self.note(from, format!("Pause of nodes {taken:?}"));
        }
        taken.into_iter().for_each(|node| self.give_back(node));
        Ok(())
    }

    /// Failovers, planned ones and those of a master that died, and what does not cause one.
    fn break_group(&self, chance: &mut Chance) -> Result<(), String> {
        let group = &self.nodes.group;
        let mut failed_over = false;
        while !self.is_over() {
            thread::sleep(between(chance, 500, 3_000));
            let master = group.master().map_err(|error| error.to_string())?;
            let from = clock::now();
            let left = self.end.saturating_duration_since(Instant::now());
            if failed_over || left < FAILOVER_TAKES || !self.may_forget(GROUP) {
                // Shorter than what sentinels take for a death.
                let done = match chance.below(2) {
                    0 => self.pause(master, between(chance, 20, 400)),
                    _ => kill_clients(master),
                };
                done.map_err(|error| format!("a fault of the master: {error}"))?;
                self.note(from, format!("Pause or KillClients of node {GROUP}"));
                continue;
            }
            failed_over = true;
            let is_planned = chance.below(2) == 0;
            let done = match is_planned {
                true => group
                    .fail_over()
                    .map(|()| thread::sleep(Duration::from_secs(1))),
                false => master.kill().and_then(|()| {
                    thread::sleep(between(chance, 2_000, 5_000));
                    master.restart()
                }),
            };
            done.map_err(|error| format!("a failover: {error}"))?;
            group.settle().map_err(|error| error.to_string())?;
            self.forgetting.end(GROUP, Instant::now());
            self.forgets(GROUP, from, false);
            let how = if is_planned {
                "planned"
            } else {
                "after a kill"
            };
            self.note(from, format!("failover of node {GROUP}, {how}"));
        }
        Ok(())
    }

    fn stop_clients(&self, chance: &mut Chance) -> Result<(), String> {
        while !self.is_over() {
            thread::sleep(between(chance, 500, 3_000));
            let child = chance.index(self.fleet.len());
            let from = clock::now();
            let length = between(chance, 50, 5_000);
            self.fleet
                .stop(child, length)
                .map_err(|error| format!("a stop of child {child}: {error}"))?;
            self.note(from, format!("stop of child {child}"));
        }
        Ok(())
    }

    /// Takes the turn to forget, if it is free.
    fn may_forget(&self, node: usize) -> bool {
        let grants = |node| self.nodes.grants(node);
        self.forgetting.begin(node, Instant::now(), grants)
    }

    fn take(&self, node: usize) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(|e| e.into_inner());
        !std::mem::replace(&mut busy[node], true)
    }

    fn give_back(&self, node: usize) {
        self.busy.lock().unwrap_or_else(|e| e.into_inner())[node] = false;
    }

    fn note(&self, from: Micros, what: String) {
        let mut faults = self.faults.lock().unwrap_or_else(|e| e.into_inner());
        faults.push((from, clock::now(), what));
    }

    fn forgets(&self, node: usize, from: Micros, locks_were_over: bool) {
        let mut forgot = self.forgot.lock().unwrap_or_else(|e| e.into_inner());
        forgot.push(Forgot {
            node,
            from,
            until: clock::now(),
            locks_were_over,
        });
    }
}

fn kill_clients(server: &RedisServer) -> Result<(), lock_testkit::ServerError> {
    server.command(&["CLIENT", "KILL", "TYPE", "normal"])?;
    Ok(())
}

fn between(chance: &mut Chance, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + chance.below(high - low))
}
