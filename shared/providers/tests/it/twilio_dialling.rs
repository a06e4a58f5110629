//! The meaning of Twilio's answers to a dial.

use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::{PhoneNumber, Provider};
use switchhook_providers::{DialAnswer, read_dial_answer};

use crate::dialling::{answers, number};

#[test]
fn twilios_refusals_are_read_from_their_code() {
    let numbers = [13_223, 13_224, 13_226, 21_201, 21_211, 21_214, 21_217, 21_227, 21_228, 21_229, 21_401];
    for code in numbers {
        let body = json!({"code": code, "message": "…", "status": 400}).to_string();
        let answer = read_dial_answer(Provider::Twilio, &number(), 400, None, body.as_bytes());
        assert!(matches!(answer, DialAnswer::Rejected { .. }), "{code}: {answer:?}");
    }
    // Twilio blocked the call. Only a call to +1 can be blocked because of the account.
    for code in [13_225, 21_216] {
        let body = json!({"code": code, "message": "…", "status": 400}).to_string();
        let answer = |to: &str| read_dial_answer(Provider::Twilio, &PhoneNumber::new(to), 400, None, body.as_bytes());
        assert_eq!(answer("+15550199"), DialAnswer::NumberOrAccountProblem { reason: "call_blocked" }, "{code}");
        for to in ["+447700900100", "sip:desk@example.com"] {
            assert_eq!(answer(to), DialAnswer::Rejected { reason: "call_blocked" }, "{code} {to}");
        }
    }
    let error = |code: u32| json!({"code": code, "status": 400});
    assert_snapshot!(answers(Provider::Twilio, [
        (400, error(21_203)),
        (400, error(21_210)),
        (400, error(21_212)),
        (400, error(21_215)),
        (400, error(21_216)),
        (400, error(21_219)),
        (400, error(21_226)),
        (400, error(13_225)),
        (400, error(13_227)),
        (400, error(32_205)),
        (400, error(573_002)),
        (400, error(573_005)),
        (400, error(21_205)),
        (401, error(20_003)),
        (403, error(20_003)),
        (400, error(10_004)),
        (429, error(20_429)),
        (400, json!({"code": "21211"})),
    ]), @r#"
    400 {"code":21203,"status":400} -> number or account: country_not_enabled
    400 {"code":21210,"status":400} -> calling number: invalid_calling_number
    400 {"code":21212,"status":400} -> calling number: invalid_calling_number
    400 {"code":21215,"status":400} -> number or account: country_not_enabled
    400 {"code":21216,"status":400} -> number or account: call_blocked
    400 {"code":21219,"status":400} -> number or account: trial_account
    400 {"code":21226,"status":400} -> number or account: destination_forbidden
    400 {"code":13225,"status":400} -> number or account: call_blocked
    400 {"code":13227,"status":400} -> number or account: country_not_enabled
    400 {"code":32205,"status":400} -> number or account: country_not_enabled
    400 {"code":573002,"status":400} -> calling number: invalid_calling_number
    400 {"code":573005,"status":400} -> number or account: trial_account
    400 {"code":21205,"status":400} -> account: bad_request
    401 {"code":20003,"status":400} -> account: unauthorized
    403 {"code":20003,"status":400} -> account: unauthorized
    400 {"code":10004,"status":400} -> too many calls: concurrency_limit
    429 {"code":20429,"status":400} -> busy: rate_limited
    400 {"code":"21211"} -> account: bad_request
    "#);
}
