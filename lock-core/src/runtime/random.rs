//! Random bytes from the operating system.

use std::time::Duration;

/// 16 bytes from the operating system's generator.
///
/// Every call asks the system. Bytes kept for later would be cheaper, but a process that forks
/// would hand out the same ones twice, and two holders with one token is what a lock must never
/// have; beside a round trip to a server the call costs nothing.
///
/// If the system has no bytes to give, this waits until it has. None of the supported systems
/// fails once it has booted, with one exception: Linux without the system call (an old kernel, a
/// strict sandbox) reads a file, for which a descriptor may be lacking for a moment. A system
/// that can never open it runs no Rust program for long, since the standard library's hash maps
/// need the same bytes.
pub(super) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    while getrandom::fill(&mut bytes).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let draws: std::collections::HashSet<_> = (0..1000).map(|_| random()).collect();
        assert_eq!(draws.len(), 1000);
    }
}
