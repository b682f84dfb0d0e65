//! Which runtime the caller is in, for who asks often.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ::tokio::runtime::{Handle, Id};
use ::tokio::task;

use super::TokioRuntime;
use crate::runtime::Runtime;

thread_local! {
    /// A task, and a runtime that it was found in.
    static FOUND: Cell<Option<(task::Id, Id)>> = const { Cell::new(None) };

    /// The runtime that a task of this thread was last in.
    static LAST: RefCell<Option<(Id, Arc<dyn Runtime>)>> = const { RefCell::new(None) };
}

/// Whether the caller is in the context of this runtime.
///
/// To ask tokio takes a handle, whose owners all threads of a runtime count in one place, and a pair
/// of acquire and release asks some fourteen times. So what was found is remembered for as long as
/// the thread runs the same task. A task that has been in the context of two runtimes,
/// one inside the other, may be told the wrong one of them a little too long: a new timer asks again.
pub(super) fn is_inside(id: Id) -> bool {
    let task = task::try_id();
    if let Some(task) = task
        && FOUND.try_with(|found| found.get() == Some((task, id))) == Ok(true)
    {
        return true;
    }
    let is_inside = Handle::try_current().is_ok_and(|current| current.id() == id);
    if is_inside && let Some(task) = task {
        // A thread that is about to end remembers nothing.
        FOUND.try_with(|found| found.set(Some((task, id)))).ok();
    }
    is_inside
}

/// The runtime whose context the caller is in. Tasks of one thread share it.
pub(in crate::runtime) fn ambient() -> Option<Arc<dyn Runtime>> {
    let handle = Handle::try_current().ok()?;
    let id = handle.id();
    // Others come by only once.
    if task::try_id().is_none() {
        return Some(Arc::new(TokioRuntime::new(handle)));
    }
    let known = LAST.try_with(|last| match &*last.borrow() {
        Some((last, runtime)) if *last == id => Some(Arc::clone(runtime)),
        _ => None,
    });
    if let Ok(Some(runtime)) = known {
        return Some(runtime);
    }
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new(handle));
    let kept = (id, Arc::clone(&runtime));
    // The one before is dropped outside: that may end a runtime.
    LAST.try_with(|last| last.replace(Some(kept))).ok();
    Some(runtime)
}
