//! Where keys are: the slot of a cluster, and the node that is asked first when votes are split.

use std::sync::Arc;

use crc::{CRC_16_XMODEM, Crc};

/// The checksum that Redis Cluster places keys by.
const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// The slot of a key, by the [specification of Redis Cluster][spec]: of what stands between the
/// first `{` and the next `}` if that is not empty, else of the whole key.
///
/// [spec]: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
pub(crate) fn slot(key: &[u8]) -> u16 {
    CRC16.checksum(tag(key).unwrap_or(key)) % SLOTS
}

/// The part of a key that alone decides about its slot, if there is one.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let position = |bytes: &[u8], wanted: u8| bytes.iter().position(|byte| *byte == wanted);
    let rest = &key[position(key, b'{')? + 1..];
    let tag = &rest[..position(rest, b'}')?];
    (!tag.is_empty()).then_some(tag)
}

/// What the key of a fencing counter ends with, and that of a lock must not.
pub(crate) const COUNTER_SUFFIX: &str = ":fencing-counter";

/// The key of the fencing counter that belongs to the key of a lock. It has the slot of that key, unless braces
/// in the key stand in the way: `a}b` and `{}a` have no tag, and cannot become one.
pub(crate) fn counter_key(key: &[u8]) -> Arc<[u8]> {
    let suffix = COUNTER_SUFFIX.as_bytes();
    match tag(key).is_some() || key.contains(&b'}') {
        true => Arc::from([key, suffix].concat()),
        false => Arc::from([b"{", key, b"}", suffix].concat()),
    }
}

/// The nodes in the order in which they are the anchor of a key: rivals agree on it without a word
/// as long as they list the nodes in the same order.
pub(crate) fn anchor_order(key: &[u8], nodes: usize) -> impl Iterator<Item = usize> {
    let start = usize::from(CRC16.checksum(key)) % nodes.max(1);
    (0..nodes).map(move |offset| (start + offset) % nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_placed_as_a_cluster_places_it() {
        // 0x31c3 is the check value of CRC-16/XMODEM for these digits.
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"a}b{c}"), slot(b"c"));
        for whole in [&b"foo{}{bar}"[..], b"{", b"}{", b"a{b", b""] {
            assert_eq!(slot(whole), CRC16.checksum(whole) % 16_384);
        }
    }

    #[test]
    fn a_counter_shares_the_slot_of_its_lock_unless_braces_stand_in_the_way() {
        let table: [(&[u8], &str); 8] = [
            (b"invoice-7", "{invoice-7}"),
            (b"shop:{42}:cart", "shop:{42}:cart"),
            (b"a{b", "{a{b}"),
            (b"{", "{{}"),
            (b"\x00", "{\x00}"),
            (b"a}b", "a}b"),
            (b"{}a", "{}a"),
            (b"}{", "}{"),
        ];
        for (key, expected) in table {
            let counter = counter_key(key);
            let shown = format!("{expected}{COUNTER_SUFFIX}");
            assert_eq!(*counter, *shown.as_bytes(), "{}", key.escape_ascii());
            let is_odd = key.contains(&b'}') && tag(key).is_none();
            assert_eq!(slot(&counter) == slot(key), !is_odd, "{shown}");
        }
    }

    #[test]
    fn the_anchor_is_the_crc16_of_the_key_and_the_next_ones_follow_in_order() {
        // The check value of CRC-16/XMODEM for these digits is 0x31c3 = 12739.
        let order = |nodes| anchor_order(b"123456789", nodes).collect::<Vec<_>>();
        assert_eq!(order(5), [4, 0, 1, 2, 3]);
        assert_eq!(order(1), [0]);
        assert_eq!(order(0), [0_usize; 0]);
    }

    #[test]
    fn different_keys_have_different_anchors_so_that_no_node_has_to_do_it_all() {
        let table: [(&[u8], _); 5] = [
            (b"", [0, 1, 2, 3, 4]),
            (b"report", [1, 2, 3, 4, 0]),
            (b"invoice-1", [2, 3, 4, 0, 1]),
            (b"invoice-2", [3, 4, 0, 1, 2]),
            (b"invoice-4", [4, 0, 1, 2, 3]),
        ];
        for (key, expected) in table {
            let order = anchor_order(key, 5).collect::<Vec<_>>();
            assert_eq!(order, expected, "{}", key.escape_ascii());
        }
    }
}
