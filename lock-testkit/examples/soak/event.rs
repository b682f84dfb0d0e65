//! What a child tells the soak: a line of words for each event.

use std::fmt;
use std::str::FromStr;

use crate::clock::Micros;
use crate::usage::Usage;

/// How a hold ended, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The holder was about to give it up, by a release or a drop.
    GivenUp,
    /// The guard was found invalid; it was valid when the holder last looked, at this time.
    Invalid { last_valid: Micros },
}

/// What a child has to say. Times are those of the one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A lock was acquired. It was asked for at `asked`, the call had returned at `from`, and what was left
    /// then was over at `until`, not earlier. `fence` is its fencing token, if it asked for one.
    Held {
        hold: u64,
        asked: Micros,
        from: Micros,
        until: Micros,
        fence: Option<u64>,
        names: Vec<String>,
    },
    /// A hold lives longer than it was known to.
    Extended { hold: u64, until: Micros },
    /// A hold ended.
    Ended { hold: u64, at: Micros, end: End },
    /// A tick was run. Its claim was asked for at `asked`, and its body ran at `at`.
    Ran {
        tick: u64,
        asked: Micros,
        at: Micros,
    },
    /// Something was done this often since the last such word.
    Count { what: String, times: u64 },
    /// The child has come to rest, with this in use.
    AtRest(Usage),
    /// Something that should not happen, in words.
    Failed(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                hold,
                asked,
                from,
                until,
                fence,
                names,
            } => {
                write!(f, "held {hold} {asked} {from} {until} ")?;
                match fence {
                    Some(fence) => write!(f, "{fence} ")?,
                    None => write!(f, "unfenced ")?,
                }
                f.write_str(&names.join(","))
            }
            Self::Extended { hold, until } => write!(f, "extended {hold} {until}"),
            Self::Ended { hold, at, end } => match end {
                End::GivenUp => write!(f, "ended {hold} {at} given-up"),
                End::Invalid { last_valid } => write!(f, "ended {hold} {at} {last_valid}"),
            },
            Self::Ran { tick, asked, at } => write!(f, "ran {tick} {asked} {at}"),
            Self::Count { what, times } => write!(f, "count {what} {times}"),
            Self::AtRest(usage) => write!(f, "at-rest {usage}"),
            // One event is one line.
            Self::Failed(text) => write!(f, "failed {}", text.replace('\n', " ")),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (verb, rest) = line.split_once(' ').ok_or("a line without a word")?;
        if verb == "failed" {
            return Ok(Self::Failed(rest.to_owned()));
        }
        let words: Vec<_> = rest.split(' ').collect();
        let number = |text: &str| {
            let number = text.parse::<u64>();
            number.map_err(|error| format!("{text}: {error}"))
        };
        match (verb, &*words) {
            ("held", [hold, asked, from, until, fence, names]) => Ok(Self::Held {
                hold: number(hold)?,
                asked: number(asked)?,
                from: number(from)?,
                until: number(until)?,
                fence: match *fence {
                    "unfenced" => None,
                    fence => Some(number(fence)?),
                },
                names: names.split(',').map(str::to_owned).collect(),
            }),
            ("extended", [hold, until]) => Ok(Self::Extended {
                hold: number(hold)?,
                until: number(until)?,
            }),
            ("ended", [hold, at, end]) => Ok(Self::Ended {
                hold: number(hold)?,
                at: number(at)?,
                end: match *end {
                    "given-up" => End::GivenUp,
                    last_valid => End::Invalid {
                        last_valid: number(last_valid)?,
                    },
                },
            }),
            ("ran", [tick, asked, at]) => Ok(Self::Ran {
                tick: number(tick)?,
                asked: number(asked)?,
                at: number(at)?,
            }),
            ("count", [what, times]) => Ok(Self::Count {
                what: (*what).to_owned(),
                times: number(times)?,
            }),
            ("at-rest", _) => Ok(Self::AtRest(rest.parse()?)),
            _ => Err(format!("not understood: {line}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_the_way_to_the_parent() {
        let ended = |end| Event::Ended {
            hold: 7,
            at: 4,
            end,
        };
        let held = |fence| Event::Held {
            hold: 7,
            asked: 1,
            from: 2,
            until: 3,
            fence,
            names: vec!["a".to_owned(), "b".to_owned()],
        };
        let events = [
            held(None),
            held(Some(4)),
            Event::Extended { hold: 7, until: 5 },
            ended(End::GivenUp),
            ended(End::Invalid { last_valid: 3 }),
            Event::Ran {
                tick: 1,
                asked: 2,
                at: 3,
            },
            Event::Count {
                what: "plain-acquired".to_owned(),
                times: 9,
            },
            Event::AtRest(Usage {
                memory: 1,
                threads: 2,
                files: 3,
                tasks: 4,
            }),
            Event::Failed("a long story".to_owned()),
        ];
        for event in events {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        for line in ["", "held 1", "ran 1 2 x", "dance 7"] {
            line.parse::<Event>().unwrap_err();
        }
    }
}
