//! The slots of Redis Cluster.

use crc::{CRC_16_XMODEM, Crc};

/// The checksum that Redis Cluster places keys by.
pub(crate) const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key, by the [specification of Redis Cluster][spec]: of what stands between the
/// first `{` and the next `}` if that is not empty, else of the whole key.
///
/// [spec]: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
pub(crate) fn slot(key: &[u8]) -> u16 {
    let position = |bytes: &[u8], wanted: u8| bytes.iter().position(|byte| *byte == wanted);
    let tag = position(key, b'{').and_then(|open| {
        let rest = &key[open + 1..];
        position(rest, b'}').map(|close| &rest[..close])
    });
    CRC16.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
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
}
