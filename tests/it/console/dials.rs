//! The page of dials: providers, calls in doubt, and the check of a number.

use http::StatusCode;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::PhoneNumber;
use switchhook_local::CALLS_TABLE;
use switchhook_tests::{World, down, is_request_to};

use super::{Browser, console};

const NUMBER: &str = "+447700900123";

#[tokio::test(start_paused = true)]
async fn number_is_checked_and_never_shown_whole() {
    let world = World::new();
    DoNotCallList::new(&world.calls, &world.inbox).block(&PhoneNumber::new(NUMBER), world.now()).await.unwrap();
    let browser = Browser::open(&console(&world, false)).await;
    let page = browser.get("/dials").await;
    assert!(page.contains("retell") && page.contains("closed"), "{}", page.html);
    let form = page.form("Check");
    let blocked = browser.submit(&form, &[("number", NUMBER)]).await;
    assert!(blocked.contains("is on the do-not-call list"), "{}", blocked.html);
    assert!(!blocked.contains(NUMBER) && !blocked.contains("7700900123"), "{}", blocked.html);
    let free = browser.submit(&form, &[("number", "+447700900999")]).await;
    assert!(free.contains("is not on the do-not-call list"), "{}", free.html);
    for same in ["tel:+447700900123", " tel:+44-7700-900123", "+44 (0)7700 900123"] {
        let page = browser.submit(&form, &[("number", same)]).await;
        assert!(page.contains("is on the do-not-call list"), "{same}: {}", page.html);
    }
    // The number that is meant may be on the list, so no answer is better than a wrong one.
    for wrong in ["apt_1", "xx:yy", "whatsapp:+447700900123", "tel:07700900123", "+1"] {
        let page = browser.submit(&form, &[("number", wrong)]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    assert_eq!(browser.post("/dials/do-not-call", &[("number", NUMBER)]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn page_that_cannot_be_read_says_so_with_its_remedy() {
    let world = World::new();
    let browser = Browser::open(&console(&world, false)).await;
    world.set_fault_hook(|call| is_request_to(call, CALLS_TABLE).then(down));
    let page = browser.get("/dials").await;
    assert!(page.contains("Unknown:") && page.contains("data-kind=\"denied\""), "{}", page.html);
    assert!(page.contains("attach ConsoleReadPolicy to your role"), "{}", page.html);
    assert!(!page.contains("badge disc ok"), "nothing unknown is green");
}
