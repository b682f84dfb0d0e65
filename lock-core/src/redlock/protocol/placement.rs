//! Which node is asked first when votes are split.

use crate::slot::CRC16;

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
