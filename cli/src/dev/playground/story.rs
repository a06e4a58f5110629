//! The stories: each plays one call from its beginning to its end.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_console::Story;
use switchhook_domain::Timestamp;
use switchhook_local::fake::{CrashPoint, DeliveryFaults, FakeProvider, Mode};

use super::webhooks::{Signature, generic_event};
use super::{Done, LocalPlayground, PUMP, PlaygroundError};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A call that another system places, and that it reports in webhooks of the generic provider.
struct Reported {
    appointment: String,
    /// Id of the call.
    call: String,
    began_at: Timestamp,
}

/// Webhook of a reported call.
#[derive(Clone, Copy)]
enum Report {
    Ringing,
    Answered,
    Confirmed,
    Declined,
    Ended,
}

impl Report {
    const fn number(self) -> u32 {
        match self {
            Self::Ringing => 1,
            Self::Answered => 2,
            Self::Confirmed => 3,
            Self::Declined => 4,
            Self::Ended => 5,
        }
    }

    const fn event_type(self) -> &'static str {
        match self {
            Self::Ringing => "call.ringing",
            Self::Answered => "call.in_progress",
            Self::Confirmed => "user.confirmed",
            Self::Declined => "user.declined",
            Self::Ended => "call.completed",
        }
    }

    /// Time since the beginning of the call.
    const fn after(self) -> Duration {
        match self {
            Self::Ringing => Duration::from_secs(2),
            Self::Answered => Duration::from_secs(9),
            Self::Confirmed | Self::Declined => Duration::from_secs(31),
            Self::Ended => Duration::from_secs(48),
        }
    }
}

/// A fake provider without faults: a story is the same whatever the page is set to, and the faults that it needs are its own. The settings
/// of the page come back when the value is dropped.
struct Undisturbed<'a> {
    fake: &'a FakeProvider,
    faults: DeliveryFaults,
    mode: Mode,
    crash: Option<CrashPoint>,
    holds: bool,
}

impl<'a> Undisturbed<'a> {
    fn start(fake: &'a FakeProvider) -> Self {
        let (faults, mode, crash) = (fake.delivery_faults(), fake.mode(), fake.next_crash());
        let before = Self { fake, faults, mode, crash, holds: fake.is_holding() };
        fake.set_delivery_faults(DeliveryFaults::NONE);
        fake.set_mode(Mode::Normal);
        fake.set_crash(None);
        fake.hold(false);
        before
    }
}

impl Drop for Undisturbed<'_> {
    fn drop(&mut self) {
        self.fake.set_delivery_faults(self.faults);
        self.fake.set_mode(self.mode);
        self.fake.set_crash(self.crash);
        self.fake.hold(self.holds);
    }
}

impl LocalPlayground {
    pub(super) async fn play(&self, story: Story) -> Result<Done, PlaygroundError> {
        let (call, shown) = match story {
            Story::LateEnding => self.late_ending().await?,
            Story::ConfirmedAfterTimeout => self.confirmed_after_timeout().await?,
            Story::DialAnswerLost => self.dialled(json!({"metadata": {"fake": "response_lost"}})).await?,
            Story::BusyThenConfirms => {
                let retry = json!({"attempts_max": 2, "delay_seconds": 60});
                self.dialled(json!({"metadata": {"fake": "busy,confirms"}, "retry": retry})).await?
            }
            Story::ForgedWebhook => self.forged().await?,
        };
        Ok(Done::new(format!("{}: the call ended as {}.", story.title(), ending(&shown))).call(&call))
    }

    /// The confirmation arrives before the answer, and twice. The ending is ten minutes late.
    async fn late_ending(&self) -> Result<(String, Value), PlaygroundError> {
        let call = self.reported("late", 10 * MINUTE);
        for report in [Report::Confirmed, Report::Ringing, Report::Confirmed, Report::Answered] {
            self.report(&call, report).await?;
        }
        self.wait_until(&call.call, |shown| shown["appointment_status"] == "Confirmed").await?;
        self.report(&call, Report::Ended).await?;
        let shown = self.wait_until(&call.call, |shown| shown["lifecycle"] == "completed").await?;
        Ok((call.call, shown))
    }

    async fn confirmed_after_timeout(&self) -> Result<(String, Value), PlaygroundError> {
        let call = self.reported("timeout", MINUTE);
        for report in [Report::Ringing, Report::Answered] {
            self.report(&call, report).await?;
        }
        self.wait_until(&call.call, |shown| shown["lifecycle"] == "in_progress").await?;
        // The stack has one inactivity timeout, and the reconciler runs at the first wake-up after it.
        self.skip(self.cloud.consumer().policy.inactivity_timeout + MINUTE).await?;
        self.wait_until(&call.call, |shown| shown["lifecycle"] == "inconclusive").await?;
        for report in [Report::Confirmed, Report::Ended] {
            self.report(&call, report).await?;
        }
        let shown = self.wait_until(&call.call, |shown| {
            shown["lifecycle"] == "completed" && shown["appointment_status"] == "Confirmed"
        });
        Ok((call.call.clone(), shown.await?))
    }

    async fn forged(&self) -> Result<(String, Value), PlaygroundError> {
        let call = self.reported("forged", MINUTE);
        for report in [Report::Ringing, Report::Answered, Report::Declined, Report::Ended] {
            self.report(&call, report).await?;
        }
        let ended = |shown: &Value| shown["lifecycle"] == "completed" && shown["outcome"] == "declined";
        self.wait_until(&call.call, ended).await?;
        for signature in [Signature::WrongKey, Signature::Aged(60 * MINUTE)] {
            let status = self.post_event(&event(&call, Report::Confirmed), signature).await?;
            if status.is_success() {
                return Err(PlaygroundError::Refused { status: status.as_u16(), body: "a forged webhook".to_owned() });
            }
        }
        tokio::time::sleep(PUMP).await;
        let shown = self.wait_until(&call.call, ended).await?;
        Ok((call.call, shown))
    }

    /// Creates a call that Switchhook places, and skips time until it is settled.
    async fn dialled(&self, request: Value) -> Result<(String, Value), PlaygroundError> {
        let _undisturbed = Undisturbed::start(self.cloud.fake());
        let call = self.create(request).await?;
        self.wait_until(&call, |shown| shown["attempts"].get(0).is_some()).await?;
        let settled = self.settle(&call).await?;
        Ok((call, settled))
    }

    fn reported(&self, name: &str, ago: Duration) -> Reported {
        let appointment = format!("{name}_{:06x}", fastrand::u32(..0x100_0000));
        let began_at = self.now().minus(ago);
        Reported { call: format!("appointment:{appointment}"), appointment, began_at }
    }

    /// Posts a webhook of a reported call, which must be accepted.
    async fn report(&self, call: &Reported, report: Report) -> Result<(), PlaygroundError> {
        let status = self.post_event(&event(call, report), Signature::Right).await?;
        if !status.is_success() {
            return Err(PlaygroundError::Refused { status: status.as_u16(), body: report.event_type().to_owned() });
        }
        // Webhooks that arrive a little apart have an order.
        tokio::time::sleep(SECOND / 10).await;
        Ok(())
    }
}

fn event(call: &Reported, report: Report) -> Value {
    generic_event(&call.appointment, report.number(), report.event_type(), call.began_at.plus(report.after()))
}

/// Lifecycle and appointment of a call, as [`Story::ends`] says them.
pub(super) fn ending(shown: &Value) -> String {
    let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    format!("{}, {}", text("lifecycle"), text("appointment_status"))
}
