//! What instances report. Processes do it in lines of text.

use std::fmt;
use std::str::FromStr;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use lock_core::tick::Tick;

/// What an instance (its number) tells the starter.
pub(crate) type Messages = UnboundedReceiver<(usize, Message)>;
pub(crate) type Teller = UnboundedSender<(usize, Message)>;

#[derive(Debug)]
pub(crate) enum Message {
    Report(Report),
    Ended(Ending),
}

/// How an instance ended.
#[derive(Debug)]
pub(crate) enum Ending {
    AsPlanned,
    /// It failed or was killed, for this cause.
    TooEarly(String),
}

/// What came of an instance's attempt at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) tick: Tick,
    pub(crate) attempt: Attempt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It ran the tick, so many milliseconds after the nominal instant by the true time.
    Ran {
        late_ms: i64,
    },
    /// Another instance has the claim or the lock.
    Taken,
    TooLate,
    /// The nodes could not decide.
    Unavailable(String),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.attempt {
            Attempt::Ran { late_ms } => write!(f, "{} ran {late_ms}", self.tick),
            Attempt::Taken => write!(f, "{} taken", self.tick),
            Attempt::TooLate => write!(f, "{} too-late", self.tick),
            Attempt::Unavailable(cause) => {
                write!(f, "{} unavailable {}", self.tick, cause.replace('\n', " "))
            }
        }
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unreadable = || format!("unreadable report: {line}");
        let (tick, rest) = line.split_once(' ').ok_or_else(unreadable)?;
        let tick = Tick::from_millis(tick.parse().map_err(|_| unreadable())?);
        let (kind, detail) = rest.split_once(' ').unwrap_or((rest, ""));
        let attempt = match kind {
            "ran" => Attempt::Ran {
                late_ms: detail.parse().map_err(|_| unreadable())?,
            },
            "taken" => Attempt::Taken,
            "too-late" => Attempt::TooLate,
            "unavailable" => Attempt::Unavailable(detail.to_owned()),
            _ => return Err(unreadable()),
        };
        Ok(Self { tick, attempt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_arrives_as_it_was_sent() {
        for attempt in [
            Attempt::Ran { late_ms: -149 },
            Attempt::Taken,
            Attempt::TooLate,
            Attempt::Unavailable("too few nodes answered; a:1: no answer".into()),
        ] {
            let tick = Tick::from_millis(1_700_000_000_000);
            let report = Report { tick, attempt };
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for line in ["", "ran", "5", "5 ran", "5 ran x", "x ran 5", "5 flew 1"] {
            assert!(line.parse::<Report>().is_err(), "{line}");
        }
    }
}
