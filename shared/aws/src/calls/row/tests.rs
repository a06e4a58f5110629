//! These tests pin the words and attributes that a row of schema 1 may hold. A version of Switchhook that reads only these takes a row with
//! anything else for damaged.

use serde::de::value::Error;
use serde::de::{Error as _, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use switchhook_domain::{
    Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, CallingWindow, Disposition, EndReason,
    EventKind, Lifecycle, MoveKind, NeverDialled, Outcome, RetryPolicy, State,
};

use super::*;
use crate::calls::encoding::lifecycle_name;

/// Answers with an error that names the fields of a struct, or the variants of an enum.
struct Names;

impl<'de> Deserializer<'de> for Names {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        Err(Error::custom(fields.join(" ")))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        Err(Error::custom(variants.join(" ")))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("neither a struct nor an enum"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

fn names<'de, T: Deserialize<'de>>() -> String {
    T::deserialize(Names).err().map(|names| names.to_string()).unwrap_or_default()
}

/// Returns an announcement of the kind after this one, so that each kind has its turn. `None` after the last one.
fn next_kind(kind: AnnouncementKind) -> Option<AnnouncementKind> {
    match kind {
        AnnouncementKind::Lifecycle(_) => Some(AnnouncementKind::Inconclusive),
        AnnouncementKind::Inconclusive => Some(AnnouncementKind::Corrected(Lifecycle::Completed, 2)),
        AnnouncementKind::Corrected(..) => Some(AnnouncementKind::RetryScheduled(Timestamp::from_millis(3))),
        AnnouncementKind::RetryScheduled(_) => Some(AnnouncementKind::Exhausted(EndReason::AttemptsUsed)),
        AnnouncementKind::Exhausted(_) => Some(AnnouncementKind::JobCanceled(StopReason::CanceledByUser)),
        AnnouncementKind::JobCanceled(_) => {
            Some(AnnouncementKind::DriftRepaired { before: "ringing", after: "completed" })
        }
        AnnouncementKind::DriftRepaired { .. } => Some(AnnouncementKind::Appointment(AppointmentStatus::Pending)),
        AnnouncementKind::Appointment(_) => Some(AnnouncementKind::AppointmentEnded(EndReason::Forgotten)),
        AnnouncementKind::AppointmentEnded(_) => Some(AnnouncementKind::Outcome(Outcome::Connected)),
        AnnouncementKind::Outcome(_) => Some(AnnouncementKind::OutcomeInconclusive),
        AnnouncementKind::OutcomeInconclusive => None,
    }
}

/// Name of an announcement in a row, with its details.
fn announcement_name(kind: AnnouncementKind) -> String {
    let announcement = Announcement {
        kind,
        attempt_index: None,
        attempt_number: 0,
        source: AnnouncementSource::Event(0),
        provider: None,
        provider_call_known: false,
        appointment_known: false,
    };
    encode_announcement(&announcement).split(' ').take(1).collect()
}

#[test]
fn rows_of_this_schema_hold_only_what_every_reader_of_it_knows() {
    let lifecycles: Vec<&str> = Lifecycle::ALL.iter().map(|state| lifecycle_name(*state)).collect();
    let outcomes: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.label()).collect();
    let end_reasons: Vec<&str> = EndReason::all().map(EndReason::as_str).collect();
    let kinds = std::iter::successors(Some(AnnouncementKind::Lifecycle(Lifecycle::Ringing)), |kind| next_kind(*kind));
    let announcements: Vec<String> = kinds.map(announcement_name).collect();
    for (what, found, known) in [
        (
            "row",
            names::<CallRow>(),
            "call_id schema_version version direction from to party appointment_id plan not_before manual_trigger stop_reason refusals job \
             due_at claim_token lease_ends_at due_soon attempts history announcements moves outbox_start in_flight wake_key wake_at \
             unanswered_since forgotten_at created_at updated_at expires_at",
        ),
        (
            "attempt",
            names::<AttemptRow>(),
            "key provider provider_call_id dialled_at is_watched dial_key awaits_outcome",
        ),
        ("plan", names::<Plan>(), "providers due_at not_after window retry metadata request_hash trace_id"),
        ("window", names::<CallingWindow>(), "time_zone opens closes days closed_dates"),
        ("retry", names::<RetryPolicy>(), "attempts_max delay_seconds delay_max_seconds voicemail unheard"),
        ("manual trigger", names::<ManualTrigger>(), "after_attempts at"),
        ("refusals", names::<Refusals>(), "after_dials providers pauses"),
        ("direction", names::<Direction>(), "inbound outbound"),
        (
            "stop reason",
            StopReason::ALL.map(StopReason::as_str).join(" "),
            "canceled_by_user do_not_call unknown_time_zone rejected_by_provider dials_unknown booking_changed too_late",
        ),
        (
            "end reason",
            end_reasons.join(" "),
            "canceled_by_user do_not_call unknown_time_zone rejected_by_provider dials_unknown booking_changed too_late attempts_used \
             not_retryable unheard forgotten",
        ),
        (
            "announcement",
            announcements.join(" "),
            "ringing inconclusive corrected=completed=2 retry_scheduled=3 exhausted=attempts_used job_canceled=canceled_by_user \
             drift_repaired=ringing=completed appointment.Pending appointment.ended=forgotten outcome.connected outcome.inconclusive",
        ),
        (
            "move",
            MoveKind::ALL.map(MoveKind::as_str).join(" "),
            "claimed triggered returned dialled withdrawn doubted canceled resumed rejected given_up",
        ),
        (
            "job",
            JobState::ALL.map(JobState::as_str).join(" "),
            "PENDING CLAIMED IN_PROGRESS COMPLETED FAILED MISSED CANCELED",
        ),
        (
            "kind",
            EventKind::ALL.map(EventKind::as_str).join(" "),
            "initiated ringing in_progress voicemail_detected user_declined user_confirmed no_answer canceled busy failed completed \
             retry_scheduled alive claim_expired dial_not_found retry_missed drift_found deadline_passed",
        ),
        ("never dialled", NeverDialled::ALL.map(NeverDialled::as_str).join(" "), "account capacity unclear"),
        (
            "disposition",
            Disposition::ALL.map(Disposition::as_str).join(" "),
            "applied parked refused stale duplicate recorded quarantined",
        ),
        (
            "lifecycle",
            lifecycles.join(" "),
            "initiated ringing presumed_completed no_answer canceled busy failed in_progress presumed_completed_after_answer \
             busy_after_answer failed_after_answer completed",
        ),
        ("outcome", outcomes.join(" "), "dialing no_answer connected voicemail declined confirmed"),
        (
            "appointment",
            AppointmentStatus::ALL.map(AppointmentStatus::as_str).join(" "),
            "Pending Dialing Connected Confirmed Declined NoAnswer Voicemail Retrying Inconclusive Canceled Blocked Failed",
        ),
        (
            "provider",
            Provider::ALL.map(|provider| provider.to_string()).join(" "),
            "retell twilio vapi telnyx elevenlabs plivo vonage livekit daily bland signalwire generic",
        ),
    ] {
        assert_eq!(
            found, known,
            "{what}: raise the schema of the rows that hold something new. CONTRIBUTING.md says how under \"Stored rows\"."
        );
    }
}
