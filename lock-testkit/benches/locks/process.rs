//! Both sides on one node, each in a process of its own.
//!
//! Most programs have one client, one server and a thread that does everything. In one process with the
//! other side, a client profits from memory, caches and threads that the other keeps warm, or suffers from
//! them. So the benchmark starts itself once for each side. Both processes stay, and a line on its standard
//! input has one of them run a turn while the other sleeps.

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::BenchResult;
use crate::args::Effort;
use crate::cpu::cpu_time;
use crate::healthy::{TASKS, ratio, warm_up};
use crate::one_node::{Ours, Raw};
use crate::report::{Cpu, Row, Unit};
use crate::side::{Pace, Side, all_at_once};
use crate::stats::median;

/// Says that the process is one of a side, which follows, and then the server's URL.
const SIDE: &str = "--side";

/// Compares the sides on one server, as `healthy::parallel` does.
pub(crate) fn run(scenario: &'static str, url: &str, effort: &Effort) -> BenchResult<Row> {
    let (mut ours, mut raw) = (Process::start("ours", url)?, Process::start("raw", url)?);
    let mut turns = Vec::new();
    for turn in 0..effort.rounds * effort.turns {
        // The side that goes second in one turn goes first in the next.
        turns.push(if turn % 2 == 0 {
            let ours = ours.turn(effort.turn)?;
            (ours, raw.turn(effort.turn)?)
        } else {
            let raw = raw.turn(effort.turn)?;
            (ours.turn(effort.turn)?, raw)
        });
    }
    ours.end()?;
    raw.end()?;

    let rates = turns
        .iter()
        .map(|(ours, raw)| (ours.pace.per_second(), raw.pace.per_second()))
        .collect::<Vec<_>>();
    let cpu = Cpu {
        ours: median(turns.iter().map(|(ours, _)| ours.cpu_per_pair())),
        raw: median(turns.iter().map(|(_, raw)| raw.cpu_per_pair())),
    };
    Ok(Row {
        scenario,
        nodes: 1,
        ours: median(rates.iter().map(|(ours, _)| *ours)),
        raw: median(rates.iter().map(|(_, raw)| *raw)),
        ratio: median(rates.chunks(2).map(ratio)),
        unit: Unit::PairsPerSecond,
        cpu: Some(cpu),
        note: format!("{TASKS} tasks, aim 0.77, {cpu}"),
    })
}

/// What came of one turn.
struct Turn {
    pace: Pace,
    /// How long the process has run on a core.
    cpu: Duration,
}

impl Turn {
    /// In microseconds.
    fn cpu_per_pair(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / f64::from(self.pace.pairs)
    }

    fn print(&self) {
        let Pace { pairs, took } = self.pace;
        println!("{pairs} {} {}", took.as_nanos(), self.cpu.as_nanos());
    }

    fn parse(line: &str) -> BenchResult<Self> {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let [pairs, took, cpu] = words[..] else {
            return Err(format!("not the result of a turn: {line:?}").into());
        };
        let pace = Pace {
            pairs: pairs.parse()?,
            took: Duration::from_nanos(took.parse()?),
        };
        let cpu = Duration::from_nanos(cpu.parse()?);
        Ok(Self { pace, cpu })
    }
}

/// The process of one side, as the one that compares sees it.
struct Process {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(side: &str, url: &str) -> BenchResult<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SIDE, side, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (asked, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(asked), Some(answers)) = (asked, answers) else {
            return Err("a process was started without pipes".into());
        };
        let mut process = Self {
            child,
            asked,
            answers: BufReader::new(answers),
        };
        // Answered when it has warmed up.
        process.turn(Duration::ZERO)?;
        Ok(process)
    }

    fn turn(&mut self, turn: Duration) -> BenchResult<Turn> {
        writeln!(self.asked, "{}", turn.as_nanos())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Turn::parse(&line)
    }

    /// It ends by itself when its standard input does, also when this process fails.
    fn end(self) -> BenchResult<()> {
        let Self {
            mut child, asked, ..
        } = self;
        drop(asked);
        let status = child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the process of a side ended with {status}").into())
        }
    }
}

/// Runs the turns of a side if this process is one; returns whether it is.
pub(crate) fn serve(mut words: impl Iterator<Item = String>) -> BenchResult<bool> {
    if words.next().is_none_or(|word| word != SIDE) {
        return Ok(false);
    }
    let (Some(side), Some(url)) = (words.next(), words.next()) else {
        return Err(format!("{SIDE} takes a side and a URL").into());
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match side.as_str() {
        "ours" => serve_turns(&runtime, &Ours::new(&url)?)?,
        "raw" => serve_turns(&runtime, &runtime.block_on(Raw::new(&url))?)?,
        _ => return Err(format!("there is no side {side}").into()),
    }
    Ok(true)
}

fn serve_turns(runtime: &Runtime, side: &impl Side) -> BenchResult<()> {
    runtime.block_on(warm_up(side))?;
    for line in stdin().lines() {
        let turn = Duration::from_nanos(line?.parse()?);
        let before = cpu_time()?;
        let pace = runtime.block_on(all_at_once(side, TASKS, turn))?;
        let cpu = cpu_time()?.saturating_sub(before);
        Turn { pace, cpu }.print();
    }
    Ok(())
}
