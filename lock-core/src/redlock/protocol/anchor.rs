//! Which node is asked first when rivals split the votes.

use super::slot::CRC16;

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
}
