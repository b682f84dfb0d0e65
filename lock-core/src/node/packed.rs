//! What a backend makes of a command, kept for the other nodes.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A place for one value, of the type that is asked for first.
#[derive(Default)]
pub(super) struct Packed {
    value: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Packed {
    /// The value that is kept. It is made if there is none yet, or if it is of another type.
    pub(super) fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let kept = self.value.get().map(Arc::clone);
        if let Some(Ok(kept)) = kept.map(Arc::downcast) {
            return kept;
        }
        let made = Arc::new(make());
        // If another one is kept already, this one serves its maker alone.
        self.value.set(Arc::<T>::clone(&made)).ok();
        made
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.value.get().is_some() {
            "Packed"
        } else {
            "Unpacked"
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_all_who_want_this_type() {
        let packed = Packed::default();
        assert_eq!(*packed.get_or_make(|| 1), 1);
        assert_eq!(*packed.get_or_make(|| 2), 1);
        assert_eq!(*packed.get_or_make(|| "other"), "other");
        assert_eq!(*packed.get_or_make(|| "another"), "another");
        assert_eq!(*packed.get_or_make(|| 3), 1);
    }
}
