//! What a person sees: a line for each tick and, on a terminal, colours and a progress bar.

use std::io::{IsTerminal, Write};

use crate::args::Args;
use crate::clock;
use crate::plan::{Plan, Schedule};
use crate::scoreboard::{Row, Summary};

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const GREY: &str = "90";

const BAR_WIDTH: u64 = 30;

#[derive(Debug)]
pub(crate) struct Screen {
    ticks: u64,
    /// Whether ticks have milliseconds.
    has_millis: bool,
    /// Whether a progress bar can be redrawn below the lines.
    bar: bool,
    colours: bool,
}

impl Screen {
    pub(crate) fn new(plan: &Plan) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let wanted = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            ticks: plan.ticks.len() as u64,
            has_millis: plan.ticks.iter().any(|tick| tick.as_millis() % 1000 != 0),
            bar: terminal && !dumb,
            colours: terminal && !dumb && wanted("NO_COLOR"),
        }
    }

    pub(crate) fn introduce(&self, args: &Args, plan: &Plan) {
        let (nodes, kind) = match args.nodes.len() {
            0 => ("5 in-process nodes".to_owned(), "tasks"),
            n => (format!("{n} Redis nodes"), "processes"),
        };
        let clocks =
            (1..=args.instances).map(|n| format!("{:+}", clock::offset(n, args.instances)));
        let clocks: Vec<_> = clocks.collect();
        let schedule = match &plan.schedule {
            Schedule::Every(period) => format!("{} ms", period.as_millis()),
            Schedule::Cron(expression) => format!("\"{expression}\""),
        };
        println!(
            "{} ticks of {schedule}, {} instances ({kind}), {nodes}.",
            self.ticks, args.instances,
        );
        println!("Their clocks are off by {} ms.", clocks.join(", "));
        println!("Strategy {}: {}", plan.strategy, plan.strategy.explain());
        if let Some(tick) = plan.restarted_at() {
            let time = self.time_of_day(tick.as_millis());
            println!("All instances stop before {time}, and start again after it.");
        }
        println!();
        self.progress(0);
    }

    /// What became of a tick.
    pub(crate) fn show(&self, row: Row) {
        let (mark, colour, text) = match row.runs.as_slice() {
            [] => ("✗", RED, format!("MISSED: {}", why_missed(&row))),
            [(instance, late_ms)] => {
                let begun = when(*late_ms);
                ("✓", GREEN, format!("run by instance {instance}, {begun}"))
            }
            runs => {
                let by: Vec<_> = runs
                    .iter()
                    .map(|(instance, _)| instance.to_string())
                    .collect();
                let text = format!("RUN {} TIMES, by instances {}", runs.len(), by.join(", "));
                ("✗", RED, text)
            }
        };
        let time = self.time_of_day(row.tick.as_millis());
        let mark = self.paint(colour, mark);
        self.line(&format!("{mark} {time}  {}", self.paint(colour, &text)));
        if let [(instance, cause), others @ ..] = row.unavailable.as_slice() {
            let others = match others.len() {
                0 => String::new(),
                n => format!(" (and {n} more likewise)"),
            };
            self.note(&format!(
                "instance {instance}{others}: unavailable: {cause}"
            ));
        }
    }

    /// Something that happened besides.
    pub(crate) fn note(&self, text: &str) {
        self.line(&self.paint(YELLOW, &format!("  ! {text}")));
    }

    /// Redraws the progress bar.
    pub(crate) fn progress(&self, done: u64) {
        if !self.bar {
            return;
        }
        let full = (BAR_WIDTH * done / self.ticks) as usize;
        let rest = BAR_WIDTH as usize - full;
        let bar = format!(
            "{}{}",
            "█".repeat(full),
            self.paint(GREY, &"░".repeat(rest))
        );
        print!("\r\x1b[2K  {bar} {done}/{}", self.ticks);
        // A bar that could not be drawn is no reason to stop.
        std::io::stdout().flush().ok();
    }

    pub(crate) fn conclude(&self, summary: &Summary) {
        let colour = if summary.each_tick_ran_once() {
            GREEN
        } else {
            RED
        };
        self.line("");
        println!("{}", self.paint(colour, &summary.to_string()));
    }

    /// A whole line, in the place of the bar.
    fn line(&self, text: &str) {
        let erase = if self.bar { "\r\x1b[2K" } else { "" };
        println!("{erase}{text}");
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// In UTC; with milliseconds only if ticks need them.
    fn time_of_day(&self, millis: u64) -> String {
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        if !self.has_millis {
            format!("{hour:02}:{minute:02}:{second:02} UTC")
        } else {
            format!("{hour:02}:{minute:02}:{second:02}.{millis:03} UTC")
        }
    }
}

fn when(late_ms: i64) -> String {
    match late_ms {
        0 => "in time".to_owned(),
        1.. => format!("{late_ms} ms late"),
        _ => format!("{} ms early", late_ms.unsigned_abs()),
    }
}

fn why_missed(row: &Row) -> String {
    let counts = [
        (row.taken, "found it taken"),
        (row.too_late, "came too late"),
        (row.unavailable.len(), "could not decide"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<_> = counts
        .map(|(count, what)| {
            format!(
                "{count} {} {what}",
                if count == 1 { "instance" } else { "instances" }
            )
        })
        .collect();
    if reasons.is_empty() {
        return "no instance tried".to_owned();
    }
    reasons.join(", ")
}
