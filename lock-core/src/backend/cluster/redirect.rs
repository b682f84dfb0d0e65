//! What a server of a cluster means that does not carry a command out. No IO, no time.

use crate::backend::place::Place;
use crate::node::NodeError;

/// Another server is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// It has the slot, for good.
    Moved(Place),
    /// It is about to get the slot, and has this key already, or will: for this command alone.
    Ask(Place),
}

impl Redirect {
    /// Reads `MOVED 3999 127.0.0.1:6381` and `ASK 3999 127.0.0.1:6381`. Without a host, the other server has the one
    /// that was asked. `None` if the error is neither, or names nothing that can be reached.
    pub(super) fn of(error: &NodeError, asked: &str) -> Option<Self> {
        let code = error.code()?;
        if code != "MOVED" && code != "ASK" {
            return None;
        }
        let text = error.to_string();
        let mut words = text.split(' ').skip(1);
        let _slot: u16 = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = match host {
            "" => asked,
            host => host,
        };
        let to = Place::new(host.as_bytes(), port.parse().ok()?)?;
        Some(match code {
            "MOVED" => Self::Moved(to),
            _ => Self::Ask(to),
        })
    }
}

/// Returns whether the server says that another one is to be asked, whoever that is. The command has not run.
pub(super) fn is_redirect(error: &NodeError) -> bool {
    matches!(error.code(), Some("MOVED" | "ASK"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_the_server_that_is_to_be_asked() {
        let place = |host: &str, port| Place::new(host.as_bytes(), port).unwrap();
        let moved = |host, port| Some(Redirect::Moved(place(host, port)));
        let ask = |host, port| Some(Redirect::Ask(place(host, port)));
        for (line, expected) in [
            ("MOVED 3999 127.0.0.1:6381", moved("127.0.0.1", 6381)),
            ("MOVED 0 Redis-1.Internal:1", moved("redis-1.internal", 1)),
            ("MOVED 3999 ::1:6381", moved("::1", 6381)),
            ("MOVED 3999 :6381", moved("asked", 6381)),
            ("ASK 3999 127.0.0.1:6381", ask("127.0.0.1", 6381)),
            ("ASK 3999 :6381", ask("asked", 6381)),
            ("ERR MOVED 3999 127.0.0.1:6381", moved("127.0.0.1", 6381)),
            ("MOVED 3999 ?:6381", None),
            ("MOVED 3999 127.0.0.1:0", None),
            ("MOVED 3999 127.0.0.1", None),
            ("MOVED x 127.0.0.1:6381", None),
            ("MOVED 70000 127.0.0.1:6381", None),
            ("MOVED", None),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                None,
            ),
            ("CLUSTERDOWN The cluster is down", None),
        ] {
            let error = NodeError::server(line);
            assert_eq!(Redirect::of(&error, "asked"), expected, "{line}");
        }
        assert_eq!(
            Redirect::of(&NodeError::not_sent("MOVED 1 h:1"), "asked"),
            None
        );
        assert!(is_redirect(&NodeError::server("MOVED 3999 ?:6381")));
        assert!(!is_redirect(&NodeError::server("TRYAGAIN")));
    }
}
