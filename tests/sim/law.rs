//! The laws that a run must keep, and how a run says that one was broken.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    // At every step
    /// Whoever signs well and asks well is answered so.
    Answered,
    /// What was acknowledged is in the inbox.
    Stored,
    /// An event is accepted once; after that it is known.
    AcceptedOnce,
    /// What is stored of a call is the fold of its events.
    IsFold,
    /// Within an attempt precedence never falls.
    NeverRegresses,
    /// A call's version grows with every change of its row.
    VersionGrows,
    /// No phone rings while another one of the same call does, or again for an attempt.
    OnePhone,
    /// A domain event has one content, however often it is published, and that is as subscribers were promised.
    OneContent,
    // In the end
    /// Every call is settled, and every queue empty.
    Settles,
    /// Every acknowledged event is in its call's history, or was decided otherwise.
    Accounted,
    /// Every committed domain event is published.
    Published,
    /// The dead-letter queue holds what nobody can read, and nothing else.
    DeadLettersAreUnreadable,
    /// Nobody dials on a claim whose lease is over.
    ClaimInTime,
    /// No log line holds a secret or a phone number.
    NothingLeaks,
    /// What is shown of a call is what truly happened, less what was never told.
    Truth,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) detail: String,
}
