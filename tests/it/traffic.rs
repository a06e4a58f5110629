//! Realistic webhooks of a given size.

#![expect(clippy::indexing_slicing, reason = "every index is drawn below the length")]

use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_tests::START_S;

/// A webhook before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(crate) provider: Provider,
    pub(crate) query: String,
    pub(crate) body: String,
}

/// Sentences of two conversations. The compression dictionary of the inbox was made without them.
pub(crate) const CONVERSATIONS: [[&str; 24]; 2] = [REMINDER, CHANGE];

const REMINDER: [&str; 24] = [
    "Hello, this is Grace from the Riverside dental clinic, am I speaking with Mr. Lovelace?",
    "Yes, speaking. Who is this again, sorry?",
    "I am calling about the cleaning that you booked with Dr. Babbage for next Tuesday at half past ten.",
    "Oh right, I had completely forgotten about that one, let me find my calendar for a second.",
    "Take your time, there is no hurry at all.",
    "Okay, so on Tuesday I have to drop the kids at swimming by nine and it is across the whole town.",
    "Would a slot in the afternoon suit you better? We have 14:15 and 16:45 left on the same day.",
    "No no, half past ten should be fine, I just need to know how long it usually takes.",
    "The appointment is planned for forty minutes, and the parking garage behind us is free for patients.",
    "Perfect, then please keep it, I will be there.",
    "Wonderful. Are there any changes to your insurance or to the medication that you take?",
    "I switched to Northern Mutual in March, do you need the number of the new card?",
    "You can simply bring the card along, our front desk will scan it.",
    "Alright. And my wife was wondering if she could get an appointment in the same week.",
    "I can ask somebody from the front desk to call her back today, would that be helpful?",
    "That would be great, she is usually free after lunch.",
    "Noted. Just to confirm: Tuesday the twenty-eighth, 10:30, Dr. Babbage, at 12 Mill Lane.",
    "Exactly, thank you very much for the reminder.",
    "You are welcome. You will get a text message with the address and the entrance code tomorrow.",
    "Great. Do I have to stop eating or drinking before, like the last time?",
    "Not for a cleaning, that was only because of the anaesthesia last year.",
    "Good to hear, coffee is what keeps me going in the mornings.",
    "I completely understand. Have a lovely day, Mr. Lovelace!",
    "You too, goodbye.",
];

const CHANGE: [&str; 24] = [
    "Good afternoon, this is Theo, the assistant of Maple Street Physiotherapy. Do I have Ms. Hopper on the line?",
    "You do, but I am just about to get on the bus, is it something quick?",
    "It is only about your session with Frank on Friday the ninth, at a quarter past four.",
    "Hm, Friday. My shift got moved to the evening, so that one is going to be tight.",
    "I understand. Frank also has a free hour on Thursday morning, or on Monday at noon.",
    "Thursday is out, I am flying to Lisbon. What was the other one again?",
    "Monday the twelfth, at noon. It would be the same room, and it takes fifty minutes.",
    "Monday works, but could we make it half an hour later? I finish at twelve.",
    "Let me see. Yes, 12:30 is still open, and I have put your name on it.",
    "Lovely. Does my doctor have to write me a new referral, or is the old one still good?",
    "The referral covers six sessions, and this will be your fourth, so there is nothing to do.",
    "And the shoulder, should I keep on doing those stretches until then?",
    "I am not able to give medical advice, but I can ask Frank to send you a short note.",
    "Yes, that would help, because it still hurts when I lift my arm above my head.",
    "Of course. Is the number that I am calling the best one for the note?",
    "It is, but he can write to my work e-mail too, whichever is easier for him.",
    "Then I will pass that on. Shall I remind you on Sunday evening with a short message?",
    "Please do, otherwise I am going to miss it, knowing me.",
    "Done. Your session on Friday is canceled, and the new one is on Monday at 12:30.",
    "And there is no fee for changing it this late, is there?",
    "No, there is none, since it is more than two days away.",
    "Brilliant, you saved me a trip. The bus is here, I really have to run.",
    "Safe travels to Lisbon, Ms. Hopper, and get well soon.",
    "Thanks, bye!",
];

/// A sequence of pseudo-random numbers (xorshift). The same start gives the same sequence.
#[derive(Debug)]
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn hex(&mut self) -> String {
        (0..4).map(|_| format!("{:08x}", self.below(1 << 32))).collect()
    }
}

/// The random numbers of the call with this number.
fn draw(number: u64) -> Xorshift {
    Xorshift((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The transcript of `turns` sentences of a conversation, as one text and word by word. It starts at a random sentence,
/// and after the last one it continues with the first.
fn transcript(draw: &mut Xorshift, conversation: &[&str], turns: usize) -> (String, Value) {
    let first = usize::try_from(draw.below(24)).unwrap_or(0);
    let mut text = Vec::new();
    let mut spoken_turns = Vec::new();
    let mut ms = 600 + draw.below(900);
    for turn in 0..turns {
        let (role, name) = if turn % 2 == 0 { ("agent", "Agent") } else { ("user", "User") };
        let sentence = conversation.iter().cycle().nth(first + turn).copied().unwrap_or_default();
        text.push(format!("{name}: {sentence}"));
        let mut words = Vec::new();
        for word in sentence.split(' ') {
            let start = ms + draw.below(90);
            ms = start + 110 + draw.below(400);
            words.push(json!({"word": format!("{word} "), "start": seconds(start), "end": seconds(ms)}));
        }
        ms += 300 + draw.below(1_500);
        spoken_turns.push(json!({"role": role, "content": sentence, "words": words}));
    }
    (text.join("\n"), Value::Array(spoken_turns))
}

fn seconds(ms: u64) -> Value {
    serde_json::from_str(&format!("{}.{:03}", ms / 1_000, ms % 1_000)).unwrap_or_default()
}

fn latency(draw: &mut Xorshift) -> Value {
    let values: Vec<u64> = (0..4).map(|_| 400 + draw.below(900)).collect();
    json!({"p50": draw.below(900), "p90": draw.below(1_400), "p95": draw.below(1_500), "p99": draw.below(1_600),
        "max": draw.below(1_700), "min": draw.below(400), "num": 4, "values": values})
}

/// The three webhooks of Retell about a confirmed call: started, ended, analysed. `detail` sets the form of the
/// transcript: 0 for none, 1 as text, 2 also word by word, 3 also with tool calls.
pub(crate) fn retell_call(number: u64, turns: usize, detail: u8) -> Vec<Webhook> {
    retell_call_about(&CONVERSATIONS[usize::from(number % 2 == 1)], number, turns, detail)
}

fn retell_call_about(conversation: &[&str], number: u64, turns: usize, detail: u8) -> Vec<Webhook> {
    let mut draw = draw(number);
    let call_id = format!("call_{}", draw.hex());
    let start = (START_S * 1_000) + draw.below(1_000_000);
    let mut started = json!({
        "call_id": call_id, "call_type": "phone_call", "agent_id": format!("agent_{}", &draw.hex()[..26]),
        "agent_version": 7, "agent_name": "Appointment reminder", "call_status": "ongoing", "direction": "outbound",
        "from_number": "+442079460018", "to_number": format!("+4477009{:05}", draw.below(100_000)),
        "telephony_identifier": {"twilio_call_sid": format!("CA{}", draw.hex())},
        "metadata": {"appointment_id": format!("appt_{number}"), "clinic": "riverside-dental"},
        "retell_llm_dynamic_variables": {"customer_name": "Mr. Lovelace", "appointment_time": "Tuesday at 10:30"},
        "opt_out_sensitive_data_storage": false, "start_timestamp": start,
    });
    let (text, words) = transcript(&mut draw, conversation, turns);
    let mut ended = started.clone();
    let spoken_ms = 20_000 + draw.below(90_000);
    let recording = draw.hex();
    merge(
        &mut ended,
        json!({
            "call_status": "ended", "end_timestamp": start + spoken_ms, "duration_ms": spoken_ms,
            "disconnection_reason": "user_hangup",
            "recording_url": format!("https://recordings.example.com/{recording}/recording.wav"),
            "public_log_url": format!("https://recordings.example.com/{recording}/public_log.txt"),
            "call_cost": {"product_costs": [
                {"product": "elevenlabs_tts", "unit_price": 0.116_666_7, "cost": draw.below(200)},
                {"product": "gpt_4_1", "unit_price": 0.075, "cost": draw.below(100)},
                {"product": "us_telephony", "unit_price": 0.025, "cost": draw.below(50)}],
                "total_duration_seconds": spoken_ms / 1_000, "total_duration_unit_price": 0.216_666_7,
                "combined_cost": draw.below(300)},
            "latency": {"e2e": latency(&mut draw), "llm": latency(&mut draw), "tts": latency(&mut draw)},
        }),
    );
    if detail >= 1 {
        merge(&mut ended, json!({"transcript": text}));
    }
    if detail >= 2 {
        merge(&mut ended, json!({"transcript_object": words}));
    }
    if detail >= 3 {
        merge(&mut ended, json!({"transcript_with_tool_calls": words}));
    }
    let mut analyzed = ended.clone();
    merge(
        &mut analyzed,
        json!({"call_analysis": {
            "call_summary": "The agent reminded the customer of the appointment on Tuesday at 10:30 with Dr. Babbage. The \
                customer confirmed, asked how long it takes, and wants the clinic to call his wife back.",
            "in_voicemail": false, "user_sentiment": "Positive", "call_successful": true,
            "custom_analysis_data": {"outcome": "confirmed", "callback_requested": true},
        }}),
    );
    merge(&mut started, json!({}));
    [("call_started", started), ("call_ended", ended), ("call_analyzed", analyzed)]
        .into_iter()
        .map(|(event, call)| Webhook {
            name: format!("retell/{event}"),
            provider: Provider::Retell,
            query: String::new(),
            body: json!({"event": event, "call": call}).to_string(),
        })
        .collect()
}

/// A `call_ended` webhook with a transcript that fills a body of about `bytes` bytes.
pub(crate) fn retell_ended(number: u64, bytes: usize, detail: u8) -> Webhook {
    filled(bytes, |turns| retell_call(number, turns, detail).swap_remove(1))
}

/// A `call_ended` webhook with a transcript as text only, in which no sentence occurs twice.
pub(crate) fn retell_ended_unrepeated(number: u64, bytes: usize) -> Webhook {
    let both = CONVERSATIONS.concat();
    filled(bytes, |turns| retell_call_about(&both, number, turns, 1).swap_remove(1))
}

/// The longest webhook with at most about `bytes` bytes. `ended` makes one with a given number of turns.
fn filled(bytes: usize, ended: impl Fn(usize) -> Webhook) -> Webhook {
    let mut webhook = ended(0);
    for turns in 1.. {
        let longer = ended(turns);
        if longer.body.len() > bytes + 200 {
            break;
        }
        webhook = longer;
    }
    webhook
}

/// The five callbacks of Twilio about a call with answering-machine detection that a person answers.
pub(crate) fn twilio_call(number: u64, appointment: bool) -> Vec<Webhook> {
    let mut draw = draw(number + 1_000_000);
    let (call_sid, account_sid) = (format!("CA{}", draw.hex()), "AC5e0f6b7c8d9a0b1c2d3e4f5061728394");
    let to = format!("%2B4477009{:05}", draw.below(100_000));
    let query = if appointment { format!("appointment_id=appt_{number}") } else { String::new() };
    let status = |status: &str, sequence: u64, second: u64, more: &str| {
        let body = format!(
            "Called={to}&ToState=&CallerCountry=GB&Direction=outbound-api\
             &Timestamp=Thu%2C+01+Jan+2026+00%3A00%3A{second:02}+%2B0000&CallbackSource=call-progress-events\
             &SequenceNumber={sequence}&CallerState=&ToZip=&CallSid={call_sid}&To={to}&CallerZip=&ToCountry=GB\
             &ApiVersion=2010-04-01&CalledZip=&CalledCity=&CallStatus={status}&From=%2B442079460018\
             &AccountSid={account_sid}&CalledCountry=GB&CallerCity=&ToCity=&FromCountry=GB&Caller=%2B442079460018\
             &FromCity=&CalledState=&FromZip=&FromState={more}"
        );
        (format!("twilio/{status}"), body)
    };
    let amd = format!("AccountSid={account_sid}&CallSid={call_sid}&AnsweredBy=human&MachineDetectionDuration=2910");
    [
        status("initiated", 0, 1, ""),
        status("ringing", 1, 2, ""),
        status("in-progress", 2, 9, ""),
        ("twilio/amd".to_owned(), amd),
        status("completed", 3, 51, "&Duration=1&CallDuration=42&SipResponseCode=200"),
    ]
    .into_iter()
    .map(|(name, body)| Webhook { name, provider: Provider::Twilio, query: query.clone(), body })
    .collect()
}

/// A webhook of about `bytes` bytes whose text has few repetitions, so that it hardly compresses.
pub(crate) fn dense_body(number: u64, bytes: usize) -> Webhook {
    let mut draw = draw(number + 2_000_000);
    let mut text = String::new();
    let frame = retell_ended(number, 0, 0).body.len() + 20;
    while frame + text.len() < bytes {
        for _ in 0..=draw.below(3) {
            text.push(char::from(b"bcdfghjklmnprstvwz"[usize::try_from(draw.below(18)).unwrap_or(0)]));
            text.push(char::from(b"aeiou"[usize::try_from(draw.below(5)).unwrap_or(0)]));
        }
        text.push(' ');
    }
    let mut webhook = retell_ended(number, 0, 0);
    let mut body: Value = serde_json::from_str(&webhook.body).unwrap_or_default();
    merge(&mut body["call"], json!({"transcript": text}));
    webhook.body = body.to_string();
    webhook
}

/// Random letters, which compress to no less than three quarters of their size. They are the same every time.
pub(crate) fn noise(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut draw = draw(0);
    (0..bytes).map(|_| char::from(LETTERS[usize::try_from(draw.below(1 << 40) >> 34).unwrap_or(0)])).collect()
}

/// The time `second` seconds after the start of a test.
pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from((START_S + second) * 1_000).unwrap_or(i64::MAX))
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
