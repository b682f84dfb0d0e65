//! Which server is the master, by what the sentinels say. No IO, no time.

use std::fmt;

use crate::backend::place::Place;
use crate::node::{NodeError, Reply};

/// What one sentinel says.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The master is there.
    At(Place),
    /// It watches no master of that name.
    Unknown,
    /// It says what nobody can use.
    Senseless,
    /// It says nothing.
    Failed(NodeError),
}

impl Answer {
    /// Reads the reply to `SENTINEL GET-MASTER-ADDR-BY-NAME`.
    pub(super) fn of(reply: Result<Reply, NodeError>) -> Self {
        match reply {
            Ok(Reply::Nil) => Self::Unknown,
            Ok(Reply::Array(items)) => place(&items).map_or(Self::Senseless, Self::At),
            Ok(_) => Self::Senseless,
            Err(error) => Self::Failed(error),
        }
    }
}

fn place(items: &[Reply]) -> Option<Place> {
    let [Reply::Bytes(host), Reply::Bytes(port)] = items else {
        return None;
    };
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Place::new(host, port)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(place) => place.fmt(f),
            Self::Unknown => f.write_str("knows no such master"),
            Self::Senseless => f.write_str("an answer that makes no sense"),
            Self::Failed(error) => match std::error::Error::source(error) {
                Some(cause) => fmt::Display::fmt(cause, f),
                None => error.fmt(f),
            },
        }
    }
}

/// What follows from the answers so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// More than half of all sentinels say so.
    Master(Place),
    /// Those that have not answered decide.
    Open,
    /// No place can have a majority any more.
    None,
}

/// Decides by the majority of **all** sentinels, silent ones included, as votes on a lock are counted.
///
/// A majority of those that answer would be enough for a client that is cut off together with an old
/// master and one sentinel to go on there.
pub(super) fn decide(answers: &[Option<Answer>]) -> Decision {
    let needed = answers.len() / 2 + 1;
    let open = answers.iter().filter(|answer| answer.is_none()).count();
    let mut most = 0;
    for answer in answers {
        let Some(Answer::At(place)) = answer else {
            continue;
        };
        let says_so =
            |other: &&Option<Answer>| matches!(other, Some(Answer::At(it)) if it == place);
        let votes = answers.iter().filter(says_so).count();
        if votes >= needed {
            return Decision::Master(place.clone());
        }
        most = most.max(votes);
    }
    if most + open >= needed {
        Decision::Open
    } else {
        Decision::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Option<Answer> {
        let host = "10.0.0.1".to_owned();
        Some(Answer::At(Place { host, port }))
    }

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn the_master_is_where_a_majority_of_all_sentinels_says() {
        let failed = || Some(Answer::Failed(NodeError::not_sent("away")));
        let unknown = || Some(Answer::Unknown);
        for (answers, decided) in [
            (vec![None], 0),
            (vec![at(1)], 1),
            (vec![failed()], -1),
            (vec![at(1), None], 0),
            (vec![at(1), at(2)], -1),
            (vec![at(1), failed()], -1),
            (vec![at(1), None, None], 0),
            (vec![at(1), None, at(1)], 1),
            (vec![at(2), at(1), at(1)], 1),
            (vec![at(2), at(1), None], 0),
            (vec![at(1), at(2), at(3)], -1),
            (vec![at(1), failed(), None], 0),
            (vec![at(1), failed(), unknown()], -1),
            (vec![unknown(), failed(), None], -1),
            (vec![unknown(), at(1), at(1)], 1),
            (vec![at(1), at(1), at(2), at(2)], -1),
            (vec![at(1), at(1), at(2), None], 0),
            (vec![at(1), at(1), at(1), None], 1),
            (vec![at(1), at(1), at(2), None, None], 0),
            (vec![at(1), at(1), at(2), failed(), failed()], -1),
        ] {
            let expected = match decided {
                0 => Decision::Open,
                -1 => Decision::None,
                port => Decision::Master(Place {
                    host: "10.0.0.1".to_owned(),
                    port: port.try_into().unwrap(),
                }),
            };
            assert_eq!(decide(&answers), expected, "{answers:?}");
        }
    }

    #[test]
    fn an_answer_is_a_host_and_a_port_or_none() {
        let shown = |reply| Answer::of(reply).to_string();
        let pair = |host: &str, port| Ok(Reply::Array(vec![bytes(host), bytes(port)]));
        for (host, port, place) in [
            ("10.0.0.1", "7001", "10.0.0.1:7001"),
            ("Redis-1.Internal", "1", "redis-1.internal:1"),
            ("::1", "65535", "[::1]:65535"),
        ] {
            assert_eq!(shown(pair(host, port)), place);
        }
        let long = "h".repeat(254);
        for (host, port) in [
            ("", "1"),
            ("h\r\n", "1"),
            ("h h", "1"),
            ("u:p@h", "1"),
            (&long, "1"),
            ("h", "0"),
            ("h", "65536"),
            ("h", "x"),
        ] {
            assert_eq!(shown(pair(host, port)), "an answer that makes no sense");
        }
        for reply in [Reply::ok(), Reply::Int(1), Reply::Array(vec![bytes("h")])] {
            assert_eq!(shown(Ok(reply)), "an answer that makes no sense");
        }
        assert_eq!(shown(Ok(Reply::Nil)), "knows no such master");
        let away = NodeError::not_sent("cannot connect").with_source("refused");
        assert_eq!(shown(Err(away)), "refused");
        let denied = NodeError::server("NOAUTH Authentication required.");
        assert_eq!(shown(Err(denied)), "NOAUTH Authentication required.");
    }
}

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::place::HOST;
    use crate::node::any_reply;

    proptest! {
        /// What a sentinel says becomes an address to connect to, and a part of messages.
        #[test]
        fn a_place_is_a_host_and_a_port_and_nothing_else(
            reply in any_reply(),
            host in any::<String>(),
            port in any::<u32>(),
        ) {
            let pair = [host, port.to_string()].map(|word| Reply::Bytes(word.into()));
            for reply in [reply, Reply::Array(pair.to_vec())] {
                if let Answer::At(place) = Answer::of(Ok(reply)) {
                    prop_assert!(place.port != 0 && (1..=HOST).contains(&place.host.len()));
                    prop_assert!(place.host.chars().all(|c| c.is_ascii_graphic()), "{}", place);
                    prop_assert!(!place.host.contains(['/', '@', '?', '#', '[']), "{}", place);
                }
            }
        }
    }
}
