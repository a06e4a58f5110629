//! The meaning of Telnyx's answers to a dial.

use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_providers::{DialAnswer, read_dial_answer};

use crate::dialling::{answers, number};

#[test]
fn telnyx_refusals_are_read_from_the_field_that_they_name() {
    let error = |code: &str, detail: &str, pointer: &str| json!({"errors": [{"code": code, "title": "…", "detail": detail, "source": {"pointer": pointer}}]});
    assert_snapshot!(answers(Provider::Telnyx, [
        (422, error("10016", "Phone number must be in +E.164 format.", "/to")),
        (422, error("10016", "Phone number must be in +E.164 format.", "/from")),
        (422, error("10015", "Invalid value for connection_id", "/connection_id")),
        (403, json!({"errors": [{"code": "10010", "title": "Authorization failed"}]})),
        (403, error("10010", "Dialed number is not included in whitelisted countries D13", "/to")),
        (403, json!({"errors": [{"code": "10010", "title": "Forbidden", "detail": "Dialed number is not included in whitelisted countries D13"}]})),
        (403, json!({"errors": [{"code": "90", "detail": "User channel limit exceeded D1"}]})),
        (422, json!({"errors": []})),
    ]), @r#"
    422 {"errors":[{"code":"10016","detail":"Phone number must be in +E.164 format.","source":{"pointer":"/to"},"title":"…"}]} -> number: invalid_number
    422 {"errors":[{"code":"10016","detail":"Phone number must be in +E.164 format.","source":{"pointer":"/from"},"title":"…"}]} -> calling number: invalid_calling_number
    422 {"errors":[{"code":"10015","detail":"Invalid value for connection_id","source":{"pointer":"/connection_id"},"title":"…"}]} -> account: unprocessable
    403 {"errors":[{"code":"10010","title":"Authorization failed"}]} -> account: forbidden
    403 {"errors":[{"code":"10010","detail":"Dialed number is not included in whitelisted countries D13","source":{"pointer":"/to"},"title":"…"}]} -> number or account: country_not_enabled
    403 {"errors":[{"code":"10010","detail":"Dialed number is not included in whitelisted countries D13","title":"Forbidden"}]} -> number or account: country_not_enabled
    403 {"errors":[{"code":"90","detail":"User channel limit exceeded D1"}]} -> too many calls: concurrency_limit
    422 {"errors":[]} -> account: unprocessable
    "#);
}

/// Telnyx refuses most dials with a code of its SIP network, beside the id of a call that it ended at once.
#[test]
fn telnyx_refusals_are_read_from_the_code_of_its_network() {
    let refused = |code: &str, detail: &str| {
        json!({
            "data": {"call_control_id": "v3:c1"},
            "errors": [{"code": "10010", "detail": detail}],
            "telnyx_error": {"error_code": code},
        })
    };
    let detail = |detail: &str| json!({"errors": [{"code": 10010, "detail": detail}]});
    assert_snapshot!(answers(Provider::Telnyx, [
        (403, refused("D60", "Can not make calls to non-verified numbers at this account level D60")),
        (403, refused("D38", "Connection has no Outbound Profile assigned D38. Connection has no Outbound Profile assigned.")),
        (403, refused("D17", "Account is disabled D17")),
        (403, refused("TM1", "No Rates Found")),
        (403, detail("Destination Number is invalid D11. The destination number is invalid.")),
        (403, detail("Account is disabled D17. Account is disabled.")),
        (403, json!({"errors": [{"detail": "invalid D11"}, {"detail": "disabled D17"}]})),
        (200, json!({"errors": [{"code": "10010", "detail": "Destination Number is invalid D11."}]})),
    ]), @r#"
    403 {"data":{"call_control_id":"v3:c1"},"errors":[{"code":"10010","detail":"Can not make calls to non-verified numbers at this account level D60"}],"telnyx_error":{"error_code":"D60"}} -> not dialled as v3:c1: trial_account
    403 {"data":{"call_control_id":"v3:c1"},"errors":[{"code":"10010","detail":"Connection has no Outbound Profile assigned D38. Connection has no Outbound Profile assigned."}],"telnyx_error":{"error_code":"D38"}} -> not dialled as v3:c1: forbidden
    403 {"data":{"call_control_id":"v3:c1"},"errors":[{"code":"10010","detail":"Account is disabled D17"}],"telnyx_error":{"error_code":"D17"}} -> not dialled as v3:c1: forbidden
    403 {"data":{"call_control_id":"v3:c1"},"errors":[{"code":"10010","detail":"No Rates Found"}],"telnyx_error":{"error_code":"TM1"}} -> not dialled as v3:c1: destination_forbidden
    403 {"errors":[{"code":10010,"detail":"Destination Number is invalid D11. The destination number is invalid."}]} -> number: invalid_number
    403 {"errors":[{"code":10010,"detail":"Account is disabled D17. Account is disabled."}]} -> account: forbidden
    403 {"errors":[{"detail":"invalid D11"},{"detail":"disabled D17"}]} -> account: forbidden
    200 {"errors":[{"code":"10010","detail":"Destination Number is invalid D11."}]} -> in doubt
    "#);
    // Telnyx may report the call that it ended. So its id is kept, and the answer is the same without it.
    let answer = |code: &str| {
        let body = refused(code, "…").to_string();
        let status = if code == "D14" { 404 } else { 403 };
        let answer = read_dial_answer(Provider::Telnyx, &number(), status, None, body.as_bytes());
        let DialAnswer::NotDialled { provider_call_id, refusal } = answer else { return answer };
        assert_eq!(provider_call_id, "v3:c1");
        *refusal
    };
    for code in ["D11", "D14", "D37", "D41", "D50", "D58", "D59"] {
        assert!(matches!(answer(code), DialAnswer::Rejected { .. }), "{code}");
    }
    for code in ["D9", "D12", "D13", "D21", "D24", "D30", "D31", "D39", "D40", "D60", "TM1"] {
        assert!(matches!(answer(code), DialAnswer::NumberOrAccountProblem { .. }), "{code}");
    }
    for code in ["D34", "D35", "D36", "D46", "D49", "D51", "D53", "D54", "D63", "D64"] {
        assert_eq!(answer(code), DialAnswer::CallingNumberProblem { reason: "invalid_calling_number" }, "{code}");
    }
    for code in ["D1", "D2", "D3", "D22"] {
        assert!(matches!(answer(code), DialAnswer::TooManyCalls { .. }), "{code}");
    }
    for code in ["D7", "D15", "D16", "D17", "D25", "D38", "D44", "D99", "x"] {
        assert_eq!(answer(code), DialAnswer::AccountProblem { reason: "forbidden" }, "{code}");
    }
}
