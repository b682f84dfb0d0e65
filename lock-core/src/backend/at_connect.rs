//! What is asked for anew at each connect.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use crate::node::NodeError;
use crate::runtime::BoxFuture;

type Answer<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Asks for something that changes while a node lives, such as a password that lasts for minutes or a
/// certificate that is renewed every night.
///
/// It is asked at each connect, in the task of the connection, and its time is part of that of the
/// connect. While a server is away and calls come, that is every 10 to 250 ms: an answer that costs something
/// is to be kept for a while. A connection that is up stays up when the answer would be another one by now: it is the server
/// that ends it.
pub struct AtConnect<T>(Arc<dyn Fn() -> BoxFuture<'static, Answer<T>> + Send + Sync>);

impl<T: 'static> AtConnect<T> {
    /// Asks by this function.
    pub fn new<F, A, E>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move || {
            let answer = ask();
            Box::pin(async move { answer.await.map_err(Into::into) })
        }))
    }

    /// Asks.
    ///
    /// # Errors
    ///
    /// [`NodeError::not_sent`], which names `what` is missing, with the cause as its source. If the function
    /// panics, that is the cause.
    ///
    /// # Cancel safety
    ///
    /// The future of the function is dropped with this one.
    pub async fn ask(&self, what: &str) -> Result<T, NodeError> {
        // Foreign code, both where it is called and where it is polled.
        let ask = AssertUnwindSafe(async { (self.0)().await });
        let panicked = |_| Err("the function that is asked has panicked".into());
        let answer = ask.catch_unwind().await.unwrap_or_else(panicked);
        answer.map_err(|cause| NodeError::not_sent(format!("cannot get {what}")).with_source(cause))
    }
}

impl<T> Clone for AtConnect<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for AtConnect<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtConnect").finish_non_exhaustive()
    }
}

/// A user and a password with which a node logs in, see [`AtConnect`]. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// Those of a user of the server's ACL.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// Those of the default user, who has no name: a password alone.
    pub fn password_only(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }

    /// The user; `None` is the default one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Returns what calls are told where the server refused credentials that were asked for: that nothing
    /// was sent. A lock would end its waiting at once for a server's lack of permission; but these
    /// credentials may be on their way to the server, or the next ones may be better.
    #[must_use]
    pub fn refused(answer: NodeError) -> NodeError {
        if !answer.is_permission() {
            return answer;
        }
        NodeError::not_sent("the server refused the credentials of this connect")
            .with_source(answer)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn it_is_asked_anew_each_time_and_says_what_is_missing() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let hook = AtConnect::new(move || {
            let time = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move {
                if time < 2 {
                    Ok(time)
                } else {
                    Err("the vault is sealed")
                }
            }
        });
        let ask = || block_on(hook.clone().ask("the password"));
        assert_eq!(ask().unwrap(), 0);
        assert_eq!(ask().unwrap(), 1);
        let error = ask().unwrap_err();
        assert_eq!(error.to_string(), "cannot get the password");
        assert_eq!(error.source().unwrap().to_string(), "the vault is sealed");
    }

    #[test]
    fn a_function_that_panics_is_told_as_the_cause() {
        async fn later() -> Result<(), String> {
            panic!("on purpose")
        }
        let at_once = AtConnect::<()>::new(|| -> std::future::Ready<Result<(), String>> {
            panic!("on purpose")
        });
        for hook in [AtConnect::new(later), at_once] {
            let error = block_on(hook.ask("the password")).unwrap_err();
            assert_eq!(error.to_string(), "cannot get the password");
            assert!(error.source().unwrap().to_string().contains("panicked"));
        }
    }

    #[test]
    fn credentials_show_nothing_and_a_refusal_of_them_ends_no_waiting() {
        assert_eq!(
            format!("{:?}", Credentials::new("u", "p")),
            "Credentials { .. }"
        );
        let refused = Credentials::refused(NodeError::server("WRONGPASS invalid password"));
        assert!(!refused.is_permission() && refused.source().is_some());
        let loading = Credentials::refused(NodeError::server("LOADING dataset"));
        assert_eq!(loading.code(), Some("LOADING"));
    }
}
