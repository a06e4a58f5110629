//! Plivo's signature: its nonce, its lists, and the URLs that it covers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use http::HeaderValue;
use sha2::Sha256;
use switchhook_domain::Provider;
use switchhook_providers::{Key, VerifyError, sign};

use crate::signatures::{NOW, PLIVO_BODY, Request};

#[test]
fn plivo_needs_a_nonce_that_nobody_can_extend() {
    const NONCE: &str = "x-plivo-signature-v3-nonce";
    let plivo = Request::signed(Provider::Plivo, PLIVO_BODY);
    assert_eq!(plivo.without(NONCE).error(), Some(VerifyError::MissingSignature));
    assert_eq!(plivo.set(NONCE, "").error(), Some(VerifyError::MissingSignature));
    assert_eq!(plivo.set(NONCE, "1760962445001").error(), Some(VerifyError::WrongSignature));
    let nonce = plivo.header(NONCE);
    for index in 0..nonce.len() {
        for bit in 0..7 {
            let mut bytes = nonce.clone().into_bytes();
            bytes[index] ^= 1 << bit;
            let flipped = String::from_utf8(bytes).unwrap();
            if HeaderValue::from_str(&flipped).is_ok() {
                assert_ne!(plivo.set(NONCE, &flipped).error(), None, "{flipped}");
            }
        }
    }
    let twice = plivo.with(|request| request.headers.push((NONCE, nonce.clone())));
    assert_eq!(twice.error(), Some(VerifyError::MalformedSignature));

    // The end of the parameters cannot pass as the start of the nonce.
    let body = b"CallUUID=c&To=a.b";
    let signed = Request::signed(Provider::Plivo, body);
    assert_eq!(signed.error(), None);
    let nonce = format!("b.{}", signed.header(NONCE));
    let moved = signed.set(NONCE, &nonce).with(|request| request.body = b"CallUUID=c&To=a".to_vec());
    assert_eq!(moved.error(), Some(VerifyError::MalformedSignature));
}

#[test]
fn plivo_accepts_any_right_signature_of_a_list() {
    const HEADER: &str = "x-plivo-signature-v3";
    const MAIN_ACCOUNT: &str = "x-plivo-signature-ma-v3";
    let plivo = Request::signed(Provider::Plivo, PLIVO_BODY);
    let right = plivo.header(HEADER);
    let other = sign(Provider::Plivo, &Key::new("other").unwrap(), "https://example.com/", PLIVO_BODY, NOW);
    let wrong = other.headers.iter().find(|(name, _)| *name == HEADER).unwrap().1.clone();
    for list in [format!("{wrong},{right}"), format!("{right},{wrong}")] {
        assert_eq!(plivo.set(HEADER, &list).error(), None);
    }
    // A header may have spaces, and an entry that is no signature hides no other.
    for entry in ["", "*", "c2hvcnQ=", "v4:abc"] {
        for list in [format!("{entry}, {right} "), format!("{wrong} ,{right},{entry}")] {
            assert_eq!(plivo.set(HEADER, &list).error(), None, "{list}");
        }
        let list = format!("{entry},{wrong}");
        assert_eq!(plivo.set(HEADER, &list).error(), Some(VerifyError::WrongSignature), "{list}");
    }
    assert_eq!(plivo.set(HEADER, "*,").error(), Some(VerifyError::MalformedSignature));
    assert_eq!(plivo.set(HEADER, &["*"; 9].join(",")).error(), Some(VerifyError::MalformedSignature));
    // A subaccount made the call, and the key is the auth token of the main account.
    assert_eq!(plivo.set(HEADER, &wrong).set(MAIN_ACCOUNT, &right).error(), None);
    assert_eq!(plivo.without(HEADER).set(MAIN_ACCOUNT, &right).error(), None);
    assert_eq!(plivo.set(HEADER, &wrong).set(MAIN_ACCOUNT, &wrong).error(), Some(VerifyError::WrongSignature));
    let twice = plivo.with(|request| {
        request.headers.push((MAIN_ACCOUNT, right.clone()));
        request.headers.push((MAIN_ACCOUNT, right.clone()));
    });
    assert_eq!(twice.error(), Some(VerifyError::MalformedSignature));
    let long = [wrong.as_str(); 8].join(",");
    assert_eq!(plivo.set(HEADER, &format!("{long},{right}")).error(), Some(VerifyError::MalformedSignature));
}

#[test]
fn plivo_query_is_signed_and_its_order_is_not() {
    let plivo = Request::signed(Provider::Plivo, PLIVO_BODY);
    for query in ["", "appointment_id=8", "appointment_id=7&switchhook_call_id=x", "appointment_i=d7"] {
        let changed = plivo.with(|request| query.clone_into(&mut request.query));
        assert_eq!(changed.error(), Some(VerifyError::WrongSignature), "{query}");
    }
    let url = "https://example.com/webhooks?b=%C3%A9+1&a=2";
    let headers = sign(Provider::Plivo, &Key::new("key").unwrap(), url, PLIVO_BODY, NOW).headers;
    let shuffled = plivo.with(|request| {
        request.headers = headers;
        request.query = "a=2&b=%c3%a9%201".to_owned();
        request.body = b"Tag=a&Name=+1%20x&CallStatus=completed&Tag=b&CallUUID=c&Tag=b".to_vec();
    });
    assert_eq!(shuffled.error(), None);
    // Unlike at Twilio, a repeated parameter is signed.
    let once = shuffled.with(|request| request.body.truncate(request.body.len() - "&Tag=b".len()));
    assert_eq!(once.error(), Some(VerifyError::WrongSignature));
}

/// The text that Plivo's documentation describes for a URL without a query: no `?`, and a `.` before the parameters.
#[test]
fn plivo_may_sign_a_url_without_a_query_as_documented() {
    let mut mac: Hmac<Sha256> = Mac::new_from_slice(b"key").unwrap();
    mac.update(b"https://example.com/webhooks.CallStatuscompletedCallUUIDc.5");
    let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    let plivo = Request::signed(Provider::Plivo, b"CallUUID=c&CallStatus=completed");
    let documented = plivo
        .set("x-plivo-signature-v3", &signature)
        .set("x-plivo-signature-v3-nonce", "5")
        .with(|request| request.query = String::new());
    assert_eq!(documented.error(), None);
    let with_query = documented.with(|request| request.query = "appointment_id=7".to_owned());
    assert_eq!(with_query.error(), Some(VerifyError::WrongSignature));
}

#[test]
fn plivo_signature_v2_is_refused() {
    let plivo = Request::signed(Provider::Plivo, PLIVO_BODY);
    let signature = plivo.header("x-plivo-signature-v3");
    let v2 = plivo.without("x-plivo-signature-v3").set("x-plivo-signature-v2", &signature);
    assert_eq!(v2.error(), Some(VerifyError::MissingSignature));
}
