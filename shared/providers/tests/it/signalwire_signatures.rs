//! SignalWire's signature of SWML's JSON, and what tells it from the one of a form.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use switchhook_domain::Provider;
use switchhook_providers::VerifyError;

use crate::signatures::Request;

const BODY: &[u8] = br#"{"event_type":"calling.call.state","params":{"call_id":"c","call_state":"answered"}}"#;
const HEADER: &str = "x-signalwire-signature";
const TWILIO_HEADER: &str = "x-twilio-signature";

fn tag(parts: &[&[u8]]) -> Vec<u8> {
    let mut mac: Hmac<Sha1> = Mac::new_from_slice(b"key").unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// Webhook of SWML.
fn swml() -> Request {
    let mut request = Request::signed(Provider::SignalWire, b"a=1");
    request.body = BODY.to_vec();
    let tag = tag(&[b"https://example.com/webhooks?appointment_id=7", BODY]);
    request.set(HEADER, &hex::encode(tag))
}

#[test]
fn signalwire_json_is_signed_with_its_url() {
    let request = swml();
    assert_eq!(request.verify().unwrap().query(), "appointment_id=7");
    assert_eq!(request.set(HEADER, &request.header(HEADER).to_uppercase()).error(), None);
    for spoilt in [
        request.with(|request| request.query = "appointment_id=8".to_owned()),
        request.with(|request| request.query.clear()),
        request.with(|request| request.path = "/webhooks/".to_owned()),
        request.with(|request| request.public_url = "https://example.org".to_owned()),
        request.with(|request| request.keys = vec!["other".to_owned()]),
    ] {
        assert_eq!(spoilt.error(), Some(VerifyError::WrongSignature));
    }
    let second = request.with(|request| request.keys = vec!["newer".to_owned(), "key".to_owned()]);
    assert_eq!(second.verify().unwrap().key_index(), 1);
}

#[test]
fn signalwire_header_has_one_of_two_forms() {
    let request = swml();
    let tag = hex::decode(request.header(HEADER)).unwrap();
    // Nothing in the signed bytes says which scheme it is: this body, read as a form, is one name without a value. So JSON must not pass
    // with the signature of a form, which covers the decoded text alone.
    let as_form = BASE64_STANDARD.encode(&tag);
    let others = ["g".repeat(40), "00".repeat(19), "00".repeat(32), BASE64_STANDARD.encode([0; 32]), "A".repeat(27)];
    for malformed in others.into_iter().chain([as_form]) {
        assert_eq!(request.set(HEADER, &malformed).error(), Some(VerifyError::MalformedSignature), "{malformed}");
    }
    // Parsed JSON takes many times its bytes, so it is parsed only once the signature has been checked.
    let forged = request.set(HEADER, &BASE64_STANDARD.encode([0; 20]));
    assert_eq!(forged.error(), Some(VerifyError::WrongSignature));
    // Anybody can leave the second header out, so it decides nothing.
    let with_second = request.with(|request| request.headers.push(("x-signalwire-sha256-signature", "00".repeat(32))));
    assert_eq!(with_second.error(), None);
}

#[test]
fn signalwire_signs_path_and_query_of_a_form() {
    let form = Request::signed(Provider::SignalWire, b"CallSid=c&CallStatus=completed");
    for spoilt in [
        form.with(|request| request.path = "/webhooks/".to_owned()),
        form.with(|request| request.query = "appointment_id=8".to_owned()),
        form.with(|request| request.public_url = "http://example.com".to_owned()),
    ] {
        assert_eq!(spoilt.error(), Some(VerifyError::WrongSignature));
    }
}

/// SignalWire's SDK accepts Twilio's header from the callbacks of cXML. The signature is a test vector of the SDK.
#[test]
fn signalwire_callback_may_have_the_header_of_twilio() {
    let form = Request::signed(Provider::SignalWire, b"").with(|request| {
        request.keys = vec!["12345".to_owned()];
        request.public_url = "https://mycompany.com".to_owned();
        request.path = "/myapp.php".to_owned();
        request.query = "foo=1&bar=2".to_owned();
        request.body =
            b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"
                .to_vec();
        request.headers = vec![(TWILIO_HEADER, "RSOYDt4T1cUTdK1PDd93/VVr8B8=".to_owned())];
    });
    assert_eq!(form.verify().unwrap().query(), "foo=1&bar=2");
    assert_eq!(form.with(|request| request.body.push(b'3')).error(), Some(VerifyError::WrongSignature));
    assert_eq!(form.set(TWILIO_HEADER, "").error(), Some(VerifyError::MissingSignature));
    // SignalWire's own header counts alone.
    assert_eq!(form.set(HEADER, "WRONG").error(), Some(VerifyError::MalformedSignature));
    // JSON of SWML never comes with Twilio's header.
    let swml = swml().with(|request| request.headers[0].0 = TWILIO_HEADER);
    assert_eq!(swml.error(), Some(VerifyError::MalformedSignature));
}

/// SignalWire's SDK keeps the order of the values of one name, and their repetitions. Twilio has another rule, which is accepted too.
#[test]
fn signalwire_form_may_repeat_a_name() {
    let form = Request::signed(Provider::SignalWire, b"a=2&a=1&a=1").with(|request| {
        request.keys = vec!["12345".to_owned()];
        request.path = "/webhooks/signalwire".to_owned();
        request.query.clear();
    });
    // Over …a2a1a1, as the SDK makes it, and over …a1a2.
    for signature in ["jAxTNDKpN5t5f5an2ITkUoPISD8=", "2NzZU4EvEP8ypwi2UtOKCc11j4M="] {
        assert_eq!(form.set(HEADER, signature).error(), None, "{signature}");
        assert_eq!(form.without(HEADER).set(TWILIO_HEADER, signature).error(), None, "{signature}");
    }
    let in_other_order =
        form.set(HEADER, "jAxTNDKpN5t5f5an2ITkUoPISD8=").with(|request| request.body = b"a=1&a=2&a=1".to_vec());
    assert_eq!(in_other_order.error(), Some(VerifyError::WrongSignature));
}

/// Both schemes sign one text: the URL, and what follows. So the joined values of a form must not pass as a body with the same signature.
#[test]
fn signature_of_a_form_signs_no_other_body() {
    let form = Request::signed(Provider::SignalWire, b"A=%26CallSid%3DCA1%26CallStatus%3Dcompleted%26");
    assert_eq!(form.error(), None);
    let tag = BASE64_STANDARD.decode(form.header(HEADER)).unwrap();
    let hex = form.set(HEADER, &hex::encode(tag));
    let joined = hex.with(|request| request.body = b"A&CallSid=CA1&CallStatus=completed&".to_vec());
    assert_eq!(joined.error(), Some(VerifyError::MalformedSignature));
}
