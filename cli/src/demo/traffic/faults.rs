//! Counts of the faults in one run's traffic.

use serde::Serialize;

/// Number of deliveries with each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::demo) struct FaultCounts {
    /// Further deliveries of a report.
    pub(in crate::demo) repeated: u64,
    /// Repeated deliveries whose bytes differ from the first.
    pub(in crate::demo) reworded: u64,
    /// Reports that arrive after a report that was made later.
    pub(in crate::demo) out_of_order: u64,
    /// Reports that arrive seconds or minutes late, but within the inactivity timeout.
    pub(in crate::demo) delayed: u64,
    /// Reports that arrive after the inactivity timeout.
    pub(in crate::demo) after_timeout: u64,
    /// Reports that never arrive.
    pub(in crate::demo) lost: u64,
    /// Attempts without any arriving report that states the ending.
    pub(in crate::demo) endings_lost: u64,
    /// Reports of one call that arrive in the same millisecond.
    pub(in crate::demo) simultaneous: u64,
    pub(in crate::demo) forged_wrong_key: u64,
    pub(in crate::demo) forged_flipped_bit: u64,
    pub(in crate::demo) forged_no_signature: u64,
    pub(in crate::demo) forged_old_recording: u64,
    /// Calls that two providers report.
    pub(in crate::demo) two_providers: u64,
    /// Calls whose sender names an id that is not its own.
    pub(in crate::demo) foreign_ids: u64,
    pub(in crate::demo) unreadable: u64,
}

impl FaultCounts {
    /// Returns all counts with a description for the printed output.
    pub(in crate::demo) fn all(&self) -> [(&'static str, u64); 15] {
        [
            ("delivered again", self.repeated),
            ("  of these, with other bytes", self.reworded),
            ("delivered out of order", self.out_of_order),
            ("delivered late", self.delayed),
            ("delivered after the inactivity timeout", self.after_timeout),
            ("lost", self.lost),
            ("attempts whose ending was lost", self.endings_lost),
            ("delivered in the same millisecond as another", self.simultaneous),
            ("forged: signed with a wrong key", self.forged_wrong_key),
            ("forged: one bit flipped after signing", self.forged_flipped_bit),
            ("forged: not signed", self.forged_no_signature),
            ("forged: old recording sent again", self.forged_old_recording),
            ("calls that two providers report", self.two_providers),
            ("calls whose sender names an id of others", self.foreign_ids),
            ("signed, but not readable", self.unreadable),
        ]
    }
}
