//! What clients asked for.

use std::collections::VecDeque;

/// The latest requests of all connections, as words.
#[derive(Default)]
pub(super) struct Record {
    requests: VecDeque<Vec<Vec<u8>>>,
    bytes: usize,
    count: u64,
}

impl Record {
    /// So many requests are kept; older ones are forgotten.
    pub(super) const MAX_REQUESTS: usize = 10_000;

    /// So many bytes are kept, however many requests that is.
    pub(super) const MAX_BYTES: usize = 16 << 20;

    pub(super) fn add(&mut self, words: Vec<Vec<u8>>) {
        self.count += 1;
        self.bytes += size(&words);
        self.requests.push_back(words);
        while self.requests.len() > Self::MAX_REQUESTS || self.bytes > Self::MAX_BYTES {
            let Some(oldest) = self.requests.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
        }
    }

    pub(super) fn to_vec(&self) -> Vec<Vec<Vec<u8>>> {
        self.requests.iter().cloned().collect()
    }

    /// Of all there ever were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

fn size(words: &[Vec<u8>]) -> usize {
    words.iter().map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_requests_are_kept_and_all_are_counted() {
        let mut record = Record::default();
        for number in 0..Record::MAX_REQUESTS + 5 {
            record.add(vec![b"GET".to_vec(), number.to_string().into_bytes()]);
        }
        let kept = record.to_vec();
        assert_eq!(kept.len(), Record::MAX_REQUESTS);
        assert_eq!(kept[0], [b"GET".to_vec(), b"5".to_vec()]);
        assert_eq!(record.count(), 10_005);

        record.add(vec![vec![0; Record::MAX_BYTES - 4]]);
        assert_eq!(record.to_vec().len(), 1);
        record.add(vec![vec![0; Record::MAX_BYTES + 1]]);
        assert_eq!((record.to_vec().len(), record.bytes), (0, 0));
    }
}
