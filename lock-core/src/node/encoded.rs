//! The encoding of a command by a client, kept for the other nodes.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Keeps one value, of the type that is asked for first.
#[derive(Default)]
pub(super) struct Encoded {
    value: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Encoded {
    /// Returns the value that is kept, or makes one if there is none yet or if it has another type.
    pub(super) fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let kept = self.value.get().map(Arc::clone);
        if let Some(Ok(kept)) = kept.map(Arc::downcast) {
            return kept;
        }
        let made = Arc::new(make());
        // If another one is kept already, this one serves the caller alone.
        self.value.set(Arc::<T>::clone(&made)).ok();
        made
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.value.get().is_some() {
            "Encoded"
        } else {
            "NotEncoded"
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_all_callers_that_want_its_type() {
        let encoded = Encoded::default();
        assert_eq!(*encoded.get_or_make(|| 1), 1);
        assert_eq!(*encoded.get_or_make(|| 2), 1);
        assert_eq!(*encoded.get_or_make(|| "other"), "other");
        assert_eq!(*encoded.get_or_make(|| "another"), "another");
        assert_eq!(*encoded.get_or_make(|| 3), 1);
    }
}
