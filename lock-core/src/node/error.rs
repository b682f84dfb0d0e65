//! Why a node did not answer a command with a reply.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Operation, Reply};
use crate::display::Line;

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
    ///
    /// It is kept as one line of at most 512 characters, without control characters, and without what
    /// some servers put around the code: the place in a script where the error occurred, or an `ERR`
    /// before another code. Where a server has no code for missing permissions or a wrong password, it
    /// gets `NOPERM` or `WRONGPASS`. Where it does not know a command or an option, the lowest version is named.
    pub fn server(line: impl AsRef<str>) -> Self {
        let line = Line(line.as_ref()).to_string();
        Self::new(NodeErrorKind::Server, normalised(&line))
    }

    /// A reply that does not belong to the command: [`NodeErrorKind::UnexpectedReply`].
    #[must_use]
    pub fn unexpected_reply(operation: &Operation, reply: &Reply) -> Self {
        // No more than its form: it may be long, and have the token of a holder in it.
        let shown: Cow<'_, str> = match reply {
            Reply::Nil => "nil".into(),
            Reply::Int(number) => number.to_string().into(),
            Reply::Bytes(bytes) if bytes.len() <= 16 => bytes.escape_ascii().to_string().into(),
            Reply::Bytes(bytes) => format!("a string of {} bytes", bytes.len()).into(),
            Reply::Array(items) => format!("an array of {}", items.len()).into(),
        };
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
        is_code(code).then_some(code)
    }

    /// Returns whether the server refused the command for lack of permission (credentials or ACL).
    /// Trying again does not help before the configuration is changed.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.code(), Some("NOAUTH" | "NOPERM" | "WRONGPASS"))
    }

    /// Returns whether the same command to the same server can only fail again.
    pub(crate) fn is_final(&self) -> bool {
        self.is_permission() || matches!(self.code(), Some("CROSSSLOT" | "MOVED" | "ASK"))
    }

    /// Returns whether the node did not answer, or was not asked, perhaps since it had not answered before.
    pub(crate) fn is_no_answer(&self) -> bool {
        matches!(self.kind, NodeErrorKind::NoAnswer | NodeErrorKind::NotSent)
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

    /// Returns whether the server refuses all locks, whatever their keys, until somebody sees to it.
    pub(crate) fn is_out_of_service(&self) -> bool {
        const CODES: [&str; 7] = [
            "CLUSTERDOWN",
            "MISCONF",
            "NOAUTH",
            "NOREPLICAS",
            "OOM",
            "QUARANTINE",
            "WRONGPASS",
        ];
        self.is_wrong_server() || self.code().is_some_and(|code| CODES.contains(&code))
    }

    /// Returns whether the server grants no lock since it may have forgotten some. Nothing was set.
    pub(crate) fn is_quarantine(&self) -> bool {
        self.code() == Some("QUARANTINE")
    }

    /// Returns whether the server refuses only what sets a key, for now.
    pub(crate) fn refuses_new_keys(&self) -> bool {
        self.is_quarantine() || self.code() == Some("OOM")
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

/// The codes that are found behind an `ERR` too, as a proxy writes them.
const CODES: [&str; 17] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "QUARANTINE",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
];

/// The line with its code first, as the servers of today write it.
fn normalised(line: &str) -> Cow<'_, str> {
    // A server that does not know a command repeats its words, the password of a handshake too.
    let line = line
        .find(", with args beginning with")
        .map_or(line, |end| &line[..end]);
    // Before Redis 7.0, an error inside a script stands behind its place: `@user_script: 12: -OOM ...`.
    let inside = line.rsplit_once("@user_script: ").and_then(|(_, rest)| {
        let (place, error) = rest.split_once(": ")?;
        let is_place = place.bytes().all(|b| b.is_ascii_digit());
        is_place.then_some(error.trim_end())
    });
    let line = match inside {
        Some(error) => error.strip_prefix('-').unwrap_or(error),
        None => line,
    };
    let text = line.strip_prefix("ERR ").unwrap_or(line);
    let code = text.split([' ', ':']).next().unwrap_or_default();
    if code == "MOVED" || code == "ASK" {
        format!("{text} (this node is part of a cluster)").into()
    } else if CODES.contains(&code) {
        text.into()
    } else if text.starts_with("invalid password") {
        format!("WRONGPASS {text}").into()
    } else if text.starts_with("The user executing the script")
        || text.contains("no permissions to")
    {
        format!("NOPERM {text}").into()
    } else if lacks_something(text) {
        format!("ERR {text} ({OLDER})").into()
    } else if inside.is_some() && !is_code(code) {
        format!("ERR {text}").into()
    } else {
        line.into()
    }
}

/// Behind an error by which a server does not know what each of the lowest version does.
const OLDER: &str =
    "the server is older than Redis 6.2, the lowest version, or a proxy or a sentinel";

/// Whether a server does not know a command or an option of ours. Commands are what they are, so no server of the
/// lowest version says so. `SCAN .. TYPE` and `HELLO` came with Redis 6.0, as did `AUTH` with a user, and writes in a
/// script that has read a time to live with 5.0.
fn lacks_something(text: &str) -> bool {
    let begins = [
        "unknown command",
        "syntax error",
        "wrong number of arguments",
    ];
    begins.iter().any(|begin| text.starts_with(begin))
        || text.contains("not allowed after non deterministic commands")
}

fn is_code(word: &str) -> bool {
    let shaped = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    !word.is_empty() && word.bytes().all(shaped)
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
    fn a_code_survives_scripts_and_proxies_of_every_server() {
        const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
        const READONLY: &str = "READONLY You can't write against a read only replica.";
        const DENIED: &str = "The user executing the script can't run this command or subcommand";
        let place = "@user_script:9: @user_script: 9: -";
        let uncaught =
            |error: &str| format!("ERR Error running script (call to f_12ab): {place}{error}");
        let table = [
            // Redis 5, with spaces at the end; 6.2 and KeyDB.
            (format!("@user_script: 12: -{OOM}  "), OOM, "OOM"),
            (
                format!("@user_script: 12: -{READONLY}"),
                READONLY,
                "READONLY",
            ),
            (uncaught(READONLY), READONLY, "READONLY"),
            (uncaught(&format!("{OOM} ")), OOM, "OOM"),
            (
                "@user_script: 3: -NOREPLICAS Not enough good replicas to write.".into(),
                "NOREPLICAS Not enough good replicas to write.",
                "NOREPLICAS",
            ),
            (
                "@user_script: 3: -MISCONF Redis is configured to save RDB snapshots".into(),
                "MISCONF Redis is configured to save RDB snapshots",
                "MISCONF",
            ),
            (
                "@user_script: 3: Wrong number of args calling Redis command From Lua script"
                    .into(),
                "ERR Wrong number of args calling Redis command From Lua script",
                "ERR",
            ),
            (
                "ERR invalid password".into(),
                "WRONGPASS invalid password",
                "WRONGPASS",
            ),
            (
                format!("@user_script: 4: {DENIED}"),
                &format!("NOPERM {DENIED}"),
                "NOPERM",
            ),
            // 7.0.
            (
                format!("ERR {DENIED}"),
                &format!("NOPERM {DENIED}"),
                "NOPERM",
            ),
            (
                format!("{OOM} script: 12ab, on @user_script:9."),
                &format!("{OOM} script: 12ab, on @user_script:9."),
                "OOM",
            ),
            // 7.2 to 8.6 and Valkey.
            (
                "ERR ACL failure in script: User u has no permissions to run the 'get' command"
                    .into(),
                "NOPERM ACL failure in script: User u has no permissions to run the 'get' command",
                "NOPERM",
            ),
            (
                "NOPERM User u has no permissions to run the 'set' command".into(),
                "NOPERM User u has no permissions to run the 'set' command",
                "NOPERM",
            ),
            // Proxies, and what redis-rs leaves of a denied SELECT.
            (format!("ERR {READONLY}"), READONLY, "READONLY"),
            (
                "ERR this user has no permissions to run the 'select' command".into(),
                "NOPERM this user has no permissions to run the 'select' command",
                "NOPERM",
            ),
            // A cluster.
            (
                "MOVED 3999 127.0.0.1:6381".into(),
                "MOVED 3999 127.0.0.1:6381 (this node is part of a cluster)",
                "MOVED",
            ),
            (
                "@user_script: 2: -ASK 3999 127.0.0.1:6381".into(),
                "ASK 3999 127.0.0.1:6381 (this node is part of a cluster)",
                "ASK",
            ),
            // Nothing around them.
            (
                "ERR DB index is out of range".into(),
                "ERR DB index is out of range",
                "ERR",
            ),
            (
                "ERR user_script:9: attempt to index a nil value script: on @user_script:9.".into(),
                "ERR user_script:9: attempt to index a nil value script: on @user_script:9.",
                "ERR",
            ),
        ];
        for (line, shown, code) in table {
            let error = NodeError::server(&line);
            assert_eq!(error.to_string(), *shown, "{line}");
            assert_eq!(error.code(), Some(code), "{line}");
        }
        assert_eq!(NodeError::server("upstream failure").code(), None);
    }

    #[test]
    fn what_an_older_server_lacks_is_told_with_the_lowest_version() {
        let non_deterministic = "Write commands not allowed after non deterministic commands. Call \
            redis.replicate_commands() at the start of your script";
        let table = [
            // To `SCAN .. TYPE`.
            ("ERR syntax error".to_owned(), "ERR syntax error"),
            // To `HELLO`, without and with a user.
            (
                "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `secret`, "
                    .to_owned(),
                "ERR unknown command `HELLO`",
            ),
            (
                "ERR wrong number of arguments for 'auth' command".to_owned(),
                "ERR wrong number of arguments for 'auth' command",
            ),
            (
                format!("ERR Error running script (call to f_1): @user_script:9: @user_script: 9: {non_deterministic} "),
                &format!("ERR {non_deterministic}"),
            ),
        ];
        for (line, shown) in table {
            let error = NodeError::server(&line);
            assert_eq!(error.to_string(), format!("{shown} ({OLDER})"));
            assert_eq!(error.code(), Some("ERR"));
        }
        for line in [
            "ERR DB index is out of range",
            "OOM command not allowed",
            "ERR unknown error",
        ] {
            assert!(
                !NodeError::server(line).to_string().contains(OLDER),
                "{line}"
            );
        }
    }

    #[test]
    fn what_no_retry_changes_is_final_and_missing_permissions_are_told_apart() {
        for (line, is_permission, is_final) in [
            ("NOAUTH Authentication required.", true, true),
            ("NOPERM this user has no permissions", true, true),
            ("WRONGPASS invalid username-password pair", true, true),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                false,
                true,
            ),
            ("MOVED 3999 127.0.0.1:6381", false, true),
            ("ASK 3999 127.0.0.1:6381", false, true),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                false,
                false,
            ),
            ("CLUSTERDOWN Hash slot not served", false, false),
            (
                "READONLY You can't write against a read only replica.",
                false,
                false,
            ),
            ("ERR syntax error", false, false),
            ("OOM command not allowed", false, false),
        ] {
            let error = NodeError::server(line);
            assert_eq!(error.is_permission(), is_permission, "{line}");
            assert_eq!(error.is_final(), is_final, "{line}");
        }
        assert!(!NodeError::not_sent("MOVED").is_final());
    }

    #[test]
    fn a_servers_error_is_kept_as_one_line_of_bounded_length() {
        let error = NodeError::server(format!("OOM a\r\n\x1b[2J{}", "x".repeat(1 << 20)));
        assert_eq!(error.code(), Some("OOM"));
        assert!(error.to_string().starts_with("OOM a   [2Jx"));
        assert!(error.to_string().len() < 600);
    }

    #[test]
    fn an_unexpected_reply_is_told_by_its_form_alone() {
        let operation = Operation::Inspect {
            key: Arc::from(*b"k"),
        };
        let shown = |reply| NodeError::unexpected_reply(&operation, &reply).to_string();
        let token = || Reply::Bytes(vec![b't'; 36]);
        let of = |form: &str| format!("unexpected reply to inspect: {form}");
        for (reply, form) in [
            (Reply::Nil, "nil"),
            (Reply::Int(-7), "-7"),
            (Reply::Bytes(b"QUEUED\n".to_vec()), r"QUEUED\n"),
            (token(), "a string of 36 bytes"),
            (Reply::Array(vec![token(), token()]), "an array of 2"),
            // It takes no time to tell.
            (
                Reply::Bytes(vec![0; 64 << 20]),
                "a string of 67108864 bytes",
            ),
        ] {
            assert_eq!(shown(reply), of(form));
        }
    }

    #[test]
    fn the_words_of_an_unknown_command_are_not_repeated_since_a_password_may_be_among_them() {
        let line =
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'secret' ";
        let error = NodeError::server(line);
        assert_eq!(
            error.to_string(),
            format!("ERR unknown command 'HELLO' ({OLDER})")
        );
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

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 20] = [
        "ERR ",
        "-",
        "@user_script",
        ": ",
        "12",
        "OOM",
        "MOVED 1 host:1",
        "ASK",
        "NOPERM",
        " no permissions to",
        "unknown command ",
        ", with args beginning with: ",
        "syntax error",
        "invalid password",
        "The user executing the script",
        "not allowed after non deterministic commands",
        "\r\n",
        "\u{1b}[2J",
        "\u{e9}\u{1F512}",
        " ",
    ];

    fn line() -> impl Strategy<Value = String> {
        let words = prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..12);
        prop_oneof![any::<String>(), words.prop_map(|words| words.concat())]
    }

    proptest! {
        #[test]
        fn an_error_of_any_server_is_one_short_line_with_a_code_or_without(line in line()) {
            let error = NodeError::server(&line);
            let shown = error.to_string();
            prop_assert!(shown.chars().count() <= 512 + "...".len() + 150, "{shown}");
            prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
            if let Some(code) = error.code() {
                prop_assert!(shown.starts_with(code) && is_code(code), "{shown}");
            }
            prop_assert!(!shown.contains("beginning with"), "{shown}");
            // What was understood once is understood again.
            let again = NodeError::server(&shown);
            prop_assert_eq!(again.code(), error.code());
        }
    }
}
