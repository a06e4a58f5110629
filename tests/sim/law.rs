//! Laws that every run must keep. Below, an *acknowledged* webhook is one that was answered with 200.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    // Checked after every step
    /// A signed webhook and a valid API request are never refused. After repetitions, each is answered with a success.
    Answered,
    /// Every acknowledged webhook is in the inbox.
    Stored,
    /// An event is answered `accepted` only once.
    AcceptedOnce,
    /// The row of a call is the fold of its events. This law is a safety net: every mutant breaks another law first.
    IsFold,
    /// The lifecycle and the outcome of an attempt never fall to a state of lower precedence.
    NeverRegresses,
    /// The version of a call grows with every change of its row.
    VersionGrows,
    /// No phone rings twice for one attempt, or while another phone rings for the same call.
    OnePhone,
    /// Nobody who has answered is dialled again, unless a machine answered.
    NotAfterAnswer,
    /// No number on the do-not-call list is dialled.
    NoBlockedNumber,
    /// Nobody is dialled outside the calling window of the call.
    WindowOpen,
    /// No provider gets more dials in any time than its rate allows, but those of 2.5 seconds, nor more calls at the same time than it may have.
    DialRate,
    /// No dial is in doubt for longer than ten minutes in which nothing is wrong with the provider.
    DoubtEnds,
    /// A provider that refuses every dial because of the account gets few requests.
    FewRefusedDials,
    /// A domain event has the same content however often it is published, and matches its JSON Schema. This law is a safety net,
    /// like [`Self::IsFold`].
    OneContent,
    // Checked at the end of a run
    /// Every call is settled, every queue is empty, and no event waits for its next try.
    Settles,
    /// The status of every acknowledged event is `processed` or `recorded`.
    Accounted,
    /// Every committed domain event is published.
    Published,
    /// The dead-letter queue holds only messages that nobody can read.
    DeadLettersAreUnreadable,
    /// No dialer uses a claim whose lease is over.
    ClaimInTime,
    /// No log line holds a secret or a phone number.
    NothingLeaks,
    /// A placed call fails because of the person, the number or the retry policy, and never because of the account, the
    /// provider or the functions.
    NoFailureWithoutReason,
    /// A call that nobody reports is found in the list of its provider, with its true end. No call that Switchhook placed is found as another one.
    Discovered,
    /// The API shows what truly happened, except for facts that no webhook reported.
    Truth,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) detail: String,
}
