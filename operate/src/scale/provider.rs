//! Requests to providers: questions about silent and settled calls, and pages of their own lists of calls.

use super::{ReconcilerLimits, Traffic};

/// Returns the share of the settled calls at which the drift check looks. It is no limit: the check is a sample by design. Its requests are
/// those that questions about silent calls leave of the minute.
#[must_use]
pub fn drift_share(traffic: &Traffic, reconciler: &ReconcilerLimits) -> f64 {
    let left = reconciler.drift_lookups - silent_calls(traffic);
    (left * drift_hours(traffic, reconciler) / 24.0 / (traffic.calls() * 60.0)).clamp(0.0, 1.0)
}

/// Returns the hours of a day in which the drift check has calls to look at, if it has too few requests. These are the busy hours, and after
/// them as many hours as it may fall behind.
#[must_use]
pub fn drift_hours(traffic: &Traffic, reconciler: &ReconcilerLimits) -> f64 {
    (24.0 / traffic.peak_factor + reconciler.drift_lag_h).min(24.0)
}

/// Returns the hours for which the reconciler asks about the dialled calls of an hour whose webhooks were all lost, if all are at one
/// provider. `None` if the silent calls of other hours need all requests.
#[must_use]
pub fn recovery_h(traffic: &Traffic, reconciler: &ReconcilerLimits) -> Option<f64> {
    let left = reconciler.ending_lookups - silent_calls(traffic);
    (left > 0.0).then(|| traffic.dials() * 3_600.0 / left / 60.0)
}

/// Returns the share of the calls that discovery reads in a provider's list, if all are at one provider.
#[must_use]
pub fn discovery_share(traffic: &Traffic, reconciler: &ReconcilerLimits) -> f64 {
    (discovered_calls(traffic, reconciler) / (traffic.calls() * 3_600.0)).min(1.0)
}

/// Returns the calls of one provider's list that discovery reads in an hour.
#[must_use]
pub fn discovered_calls(traffic: &Traffic, reconciler: &ReconcilerLimits) -> f64 {
    reconciler.discovery_pages * 60.0 * traffic.profile.calls_per_page
}

/// Returns the same, if discovery reads each call in as many periods as overlap. With more calls it falls behind, its periods grow, and fewer of
/// them overlap.
#[must_use]
pub fn discovered_calls_in_time(traffic: &Traffic, reconciler: &ReconcilerLimits) -> f64 {
    discovered_calls(traffic, reconciler) / reconciler.discovery_periods
}

/// Mean number of calls per minute whose ending no webhook reports.
pub(super) fn silent_calls(traffic: &Traffic) -> f64 {
    traffic.calls() * traffic.silent_share * 60.0
}
