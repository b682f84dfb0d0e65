//! Random bytes from the operating system.

use std::time::Duration;

/// Returns 16 bytes from the operating system's generator.
///
/// Every call asks the system. Keeping bytes for later would be cheaper, but a process that forks
/// would use the same ones twice, and two holders must never have the same token; beside a round trip
/// to a server the call costs nothing.
///
/// If the system has no bytes, this waits until it has. None of the supported systems fails once it
/// has booted, with one exception: Linux without the system call (an old kernel, a strict sandbox)
/// reads a file, for which it may lack a descriptor for a moment. On a system that can never open it
/// no Rust program runs for long, because the standard library's hash maps need the same bytes.
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
