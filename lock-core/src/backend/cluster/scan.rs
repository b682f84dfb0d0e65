//! A listing, master by master.

use std::sync::Arc;

use super::ClusterClient;
use super::routes::Routes;
use super::state::{Deadline, State};
use crate::node::{Command, NodeError, Operation, RedisNode, Reply};

/// The bits of a cursor that are the server's own; the rest is the number of the master.
const OWN_BITS: u32 = 54;

impl<C: ClusterClient> State<C> {
    pub(super) async fn scan(
        self: &Arc<Self>,
        routes: &Routes<C>,
        prefix: &Arc<[u8]>,
        cursor: u64,
        deadline: &Deadline,
    ) -> Result<Reply, NodeError> {
        let masters = routes.masters();
        let (number, own) = apart(cursor);
        let Some(master) = masters.get(number) else {
            // There are fewer by now.
            return Ok(reply(0, Reply::Array(Vec::new())));
        };
        let command = Command::from(Operation::Scan {
            prefix: Arc::clone(prefix),
            cursor: own,
        });
        let answer = master.node.execute(&command, deadline.left()).await;
        let answer = self.learn(answer)?;
        let unexpected = || NodeError::unexpected_reply(command.operation(), &answer);
        let (next, keys) = read(&answer).ok_or_else(unexpected)?;
        Ok(reply(joined(number, masters.len(), next), keys))
    }
}

/// The number of a master, and its own cursor.
fn apart(cursor: u64) -> (usize, u64) {
    let number = usize::try_from(cursor >> OWN_BITS).unwrap_or(usize::MAX);
    (number, cursor & ((1 << OWN_BITS) - 1))
}

/// Where the listing goes on when a master has said where its own does.
fn joined(number: usize, masters: usize, own: u64) -> u64 {
    let number = match own {
        0 if number + 1 >= masters => return 0,
        0 => number + 1,
        _ => number,
    };
    ((number as u64) << OWN_BITS) | own
}

/// The cursor, if it leaves room for the number of a master, and the keys.
fn read(answer: &Reply) -> Option<(u64, Reply)> {
    let Reply::Array(parts) = answer else {
        return None;
    };
    let [Reply::Bytes(cursor), keys] = &parts[..] else {
        return None;
    };
    let cursor: u64 = std::str::from_utf8(cursor).ok()?.parse().ok()?;
    (cursor >> OWN_BITS == 0).then(|| (cursor, keys.clone()))
}

fn reply(cursor: u64, keys: Reply) -> Reply {
    Reply::Array(vec![Reply::Bytes(cursor.to_string().into_bytes()), keys])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_through_one_master_after_the_other() {
        let second = 1 << OWN_BITS;
        for (at, masters, own, next) in [
            (0, 1, 0, 0),
            (0, 1, 7, 7),
            (7, 2, 9, 9),
            (9, 2, 0, second),
            (second, 2, 5, second + 5),
            (second + 5, 2, 0, 0),
            (second + 5, 3, 0, 2 * second),
            // Others have gone meanwhile.
            (second + 5, 1, 0, 0),
        ] {
            let (number, _) = apart(at);
            assert_eq!(
                joined(number, masters, own),
                next,
                "{at} of {masters}: {own}"
            );
        }
        assert_eq!(apart(2 * second + 5), (2, 5));
    }

    #[test]
    fn a_cursor_without_room_for_the_master_is_refused() {
        let keys = || Reply::Array(vec![Reply::Bytes(b"k".to_vec())]);
        let last = (1 << OWN_BITS) - 1;
        assert_eq!(read(&reply(last, keys())), Some((last, keys())));
        assert_eq!(read(&reply(last + 1, keys())), None);
        assert_eq!(read(&Reply::ok()), None);
        let odd = Reply::Array(vec![Reply::Bytes(b"x".to_vec()), keys()]);
        assert_eq!(read(&odd), None);
    }
}
