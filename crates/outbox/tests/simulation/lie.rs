//! Ends that break their contract on purpose: what the simulation must notice, or it notices nothing.

/// How an end lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It does not.
    None,
    /// The sink gives its answers in the wrong order.
    ShuffledOutcomes,
    /// The sink calls delivered what it may not have.
    DeliveredUnknown,
    /// The sink lets neighbours of a rejected message pay for it.
    RejectedTogether,
    /// The sink blames messages for its outage.
    ChargedOutage,
    /// The sink never answers a call.
    Silence,
    /// The source changes what was written.
    ChangedPayload,
    /// The source leaves out a message.
    PassedOver,
    /// The source hands out a message of an open claim.
    HandedOutTwice,
    /// The source forgets that messages were done.
    ForgottenDone,
    /// The source brings retries at once.
    EarlyRetry,
    /// The source forgets the attempts.
    ForgottenAttempts,
    /// The source brings the dead back.
    RisenDead,
    /// The source does not tell that an earlier message of a key is set aside.
    ForgottenHeld,
    /// The source gives messages of a key in the wrong order.
    Reversed,
    /// The source says that a settle is written, and has not.
    UnwrittenSettle,
    /// The source says to a relay that lost its lease that its settle is written.
    SettledLost,
    /// The source stays with a relay that has closed it.
    KeptOnClose,
}
