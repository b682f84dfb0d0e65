//! Why a node did not answer a command with a reply.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Operation, Reply};

/// What is known about the fate of a command that got no [`Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// Nothing left this process and nothing will, for certain: there was no connection, a pause
    /// before the next connect, a full queue. The only kind after which no release is owed.
    NotSent,
    /// No answer came in time. The command may still run.
    NoAnswer,
    /// The connection broke before the answer. The command may have run.
    Connection,
    /// The server answered with an error, see [`NodeError::code`].
    Server,
    /// The server's answer does not belong to such a command.
    UnexpectedReply,
    /// The node cannot do this at all.
    Unsupported,
}

/// The failure of one call to one node.
///
/// `Display` says what happened; the cause in the transport is in [`source`](Error::source) and is
/// not repeated. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct NodeError {
    kind: NodeErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl NodeError {
    fn new(kind: NodeErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Nothing was sent, for certain: [`NodeErrorKind::NotSent`].
    pub fn not_sent(message: impl Into<Arc<str>>) -> Self {
        Self::new(NodeErrorKind::NotSent, message)
    }

    /// No answer in the time allowed: [`NodeErrorKind::NoAnswer`].
    #[must_use]
    pub fn no_answer(within: Duration) -> Self {
        Self::new(
            NodeErrorKind::NoAnswer,
            format!("no answer in {}", crate::display::Ms(within)),
        )
    }

    /// The connection broke while the answer was awaited: [`NodeErrorKind::Connection`].
    pub fn connection(message: impl Into<Arc<str>>) -> Self {
        Self::new(NodeErrorKind::Connection, message)
    }

    /// The server's error reply, code first, as it stands on the wire without the leading `-`:
    /// `READONLY You can't write against a read only replica.`
    pub fn server(line: impl Into<Arc<str>>) -> Self {
        let line = line.into();
        // A server that does not know a command repeats its words, the password of a handshake too.
        match line.find(", with args beginning with") {
            Some(end) => Self::new(NodeErrorKind::Server, &line[..end]),
            None => Self::new(NodeErrorKind::Server, line),
        }
    }

    /// A reply that does not belong to the command: [`NodeErrorKind::UnexpectedReply`].
    #[must_use]
    pub fn unexpected_reply(operation: &Operation, reply: &Reply) -> Self {
        let mut shown = format!("{reply:?}");
        if let Some((end, _)) = shown.char_indices().nth(80) {
            shown.truncate(end);
            shown.push_str("...");
        }
        Self::new(
            NodeErrorKind::UnexpectedReply,
            format!("unexpected reply to {}: {shown}", operation.name()),
        )
    }

    /// The node cannot subscribe to a channel: [`NodeErrorKind::Unsupported`].
    #[must_use]
    pub fn cannot_listen() -> Self {
        Self::new(NodeErrorKind::Unsupported, "this node cannot listen")
    }

    /// Adds the error of the client or the transport that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// What is known about the command's fate.
    #[must_use]
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// The code of a server's error (`NOAUTH`, `OOM`, `ERR`, ...), for [`NodeErrorKind::Server`].
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        if self.kind != NodeErrorKind::Server {
            return None;
        }
        let code = self.message.split([' ', ':']).next()?;
        let shaped = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        (!code.is_empty() && code.bytes().all(shaped)).then_some(code)
    }

    /// Returns whether the server refused the command for lack of permission (credentials or ACL).
    /// Trying again does not help before the configuration is changed.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self.code() {
            Some("NOAUTH" | "NOPERM" | "WRONGPASS") => true,
            // A command that an ACL denies inside a script is reported without a code of its own.
            Some("ERR") => self.message.contains("The user executing the script"),
            _ => false,
        }
    }

    /// Returns whether a node of a cluster refused a command with keys of several slots.
    pub(crate) fn is_cross_slot(&self) -> bool {
        self.code() == Some("CROSSSLOT")
    }

    /// Returns whether this is the wrong server, or not the one any more that it was: the right one may be
    /// where its name leads by now.
    pub(crate) fn is_wrong_server(&self) -> bool {
        matches!(self.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"))
    }

    /// Returns whether the server may have refused the command for one of its keys alone: for lack of
    /// permission, or since it is about to move it or has moved it to another node of a cluster.
    pub(crate) fn is_of_one_key(&self) -> bool {
        self.is_permission() || matches!(self.code(), Some("MOVED" | "ASK" | "TRYAGAIN"))
    }

    /// Returns whether the server does not know the script, so that nothing ran.
    pub(crate) fn is_no_script(&self) -> bool {
        self.code() == Some("NOSCRIPT")
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|cause| cause as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_first_word_of_a_servers_error_and_of_no_other() {
        let code = |line: &str| NodeError::server(line).code().map(str::to_owned);
        assert_eq!(
            code("READONLY You can't write").as_deref(),
            Some("READONLY")
        );
        assert_eq!(
            code("OOM: command not allowed when full").as_deref(),
            Some("OOM")
        );
        assert_eq!(code("something odd"), None);
        assert_eq!(code(""), None);
        assert_eq!(NodeError::not_sent("READONLY").code(), None);
    }

    #[test]
    fn permission_is_told_by_code_and_inside_scripts_by_its_sentence() {
        for line in [
            "NOAUTH Authentication required.",
            "NOPERM this user has no permissions",
            "WRONGPASS invalid username-password pair",
            "ERR The user executing the script can't run this command or subcommand",
        ] {
            assert!(NodeError::server(line).is_permission(), "{line}");
        }
        for line in ["ERR syntax error", "OOM command not allowed"] {
            assert!(!NodeError::server(line).is_permission(), "{line}");
        }
    }

    #[test]
    fn the_words_of_an_unknown_command_are_not_repeated_since_a_password_may_be_among_them() {
        let line =
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'secret' ";
        let error = NodeError::server(line);
        assert_eq!(error.to_string(), "ERR unknown command 'HELLO'");
        assert_eq!(error.code(), Some("ERR"));
    }

    #[test]
    fn the_cause_is_in_source_and_not_repeated_in_display() {
        let error = NodeError::not_sent("cannot connect").with_source("connection refused");
        assert_eq!(error.to_string(), "cannot connect");
        let cause = error.source().map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("connection refused"));
    }
}
