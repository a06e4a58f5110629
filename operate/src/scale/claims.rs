//! Claims of calls that are due. Each books a place in the row of its provider.

use super::{READ_S, vcpus};
use crate::cost::MEMORY_GB;

/// Seconds of each minute in which a run of the scheduler claims calls.
pub const CLAIM_RUN_S: f64 = 40.0;
/// Seconds of one vCPU that a function needs for a claim, which is a write and a message. `docs/performance.md` has the measurement of these two
/// requests alone.
pub const CLAIM_CPU_S: f64 = 0.000_376;

/// Returns the claims per second for one provider, if each books its place alone, as for calls that are due when they are created. A booking
/// reads the row of the provider and writes it. If another one wrote in between, it begins again, so bookings follow one another.
pub(super) const fn bookings_max() -> f64 {
    1.0 / (2.0 * READ_S)
}

/// Returns the claims per second of the scheduler's runs, for all providers together. A run books many places by one write, and makes 16
/// claims at the same time. So CPU is its limit.
pub(super) const fn run_claims_max() -> f64 {
    CLAIM_RUN_S / 60.0 * vcpus(MEMORY_GB) / CLAIM_CPU_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_those_of_a_calculation_by_hand() {
        // A read and a write of 5 ms each. A vCPU has 1,769 MB, and the scheduler 256 MB.
        assert!((bookings_max() - 100.0).abs() < 1e-9);
        assert!((run_claims_max() - 40.0 / 60.0 * 256.0 / 1_769.0 / 0.000_376).abs() < 1e-9);
    }
}
