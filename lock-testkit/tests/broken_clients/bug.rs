//! What can be wrong with the client.

/// One mistake of a client. The checks that must find it stand beside it in `main.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// It keeps all rules.
    None,
    /// A command whose connection broke is sent again over the next one.
    Resends,
    /// A call that fails while the server is down is remembered, and sent after all.
    RemembersFailed,
    /// Calls wait in a queue while the server is down, and stay there when they are given up.
    OfflineQueue,
    /// What was answered with an error is sent once more.
    RetriesErrors,
    /// An error reply is taken for a refusal.
    ErrorAsRefusal,
    /// A broken connection is taken for a refusal.
    BreakAsRefusal,
    /// A call that is in doubt is said not to have been sent.
    DoubtAsNotSent,
    /// A connection that broke is never replaced.
    NeverReconnects,
    /// A call waits until the server is up, however long that takes.
    WaitsForServer,
    /// After a failed connect it does not try again for a minute.
    ReconnectsLate,
    /// A connection that hangs is kept for ever.
    KeepsHungConnection,
    /// A call that is given up leaves its place in the line, but its reply comes all the same.
    ShiftsReplies,
    /// Each call opens a connection of its own.
    ConnectsForEachCall,
    /// A connection that was replaced is never closed.
    LeaksConnections,
    /// Commands leave on two connections by turns.
    TwoConnections,
    /// It asks the server that `MOVED` names.
    FollowsMoved,
    /// An error reply becomes an error without its code.
    HidesCodes,
    /// Errors have no cause.
    SwallowsCause,
    /// `Debug` shows the password.
    PasswordInDebug,
    /// Errors show the password.
    PasswordInErrors,
    /// The label shows the password.
    PasswordInLabel,
    /// The constructor connects.
    ConnectsWhenBuilt,
    /// The constructor waits for an answer.
    WaitsWhenBuilt,
    /// The time that a call may take is not looked at.
    IgnoresWithin,
    /// Calls end sooner than they have to.
    OwnTimeout,
    /// A connection that is replaced does not get the releases of its doubtful acquires.
    ForgetsUndo,
    /// An error reply makes it close the connection.
    ClosesOnError,
    /// After an error reply it asks nothing for a while.
    SulksAfterError,
    /// A call that is dropped takes the connection with it.
    ClosesWhenDropped,
    /// A call waits for its turn until the one before has ended.
    OneAtATime,
    /// Calls that wait for the connection are not sent in their order.
    WaitsUnfairly,
    /// RESP2's nil is read as an empty string.
    ReadsNilAsEmpty,
    /// RESP3's null is read as text.
    ReadsNullAsText,
    /// It does not log in.
    SendsNoPassword,
    /// It fails to listen, and does not say that it never will.
    FailsToListen,
    /// It panics when it is to listen.
    PanicsWhenListening,
    /// Each node has another label.
    LabelOfItsOwn,
}
