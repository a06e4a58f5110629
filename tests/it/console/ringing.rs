//! Phones that could ring: a plan says how many, and one confirmation is not enough.

use http::StatusCode;
use switchhook_operate::plan::{Plan, PlanId};

use super::repair::{REASON, audited, ended, token};
use super::{Browser, console};
use crate::operator::quarantine::unreadable;
use crate::repair::effects::with_lost_ending;
use crate::repair::{consume_all, stack_of};

#[tokio::test(start_paused = true)]
async fn second_confirmation_is_needed_if_a_phone_could_ring() {
    let (world, call_id) = with_lost_ending().await;
    // Its page has a form, whose token makes a plan.
    unreadable(&world).await;
    let browser = Browser::open(&console(&world, true)).await;
    let form_token = token(&browser.get("/repair?tab=quarantined").await.form("Plan: discard"));
    let fields = [("kind", "replay"), ("call", call_id.as_str()), ("form_token", form_token.as_str())];
    let made = browser.post("/plan", &fields).await;
    let plan_page = made.location.unwrap_or_else(|| panic!("{}", made.html));
    let id = PlanId::new(plan_page.strip_prefix("/plan?id=").unwrap());
    let plan = Plan::load(&stack_of(&world), &id).await.unwrap();
    assert_eq!(plan.phones, 1, "{plan:?}");
    let page = browser.get(&plan_page).await;
    assert!(page.contains("Phones that could ring</dt><dd>1</dd>"), "{}", page.html);
    assert!(page.contains("Up to 1 phone could ring because of this run"), "{}", page.html);

    let form = page.form("Run");
    let count = plan.items.len().to_string();
    let one = [REASON, ("count", count.as_str()), ("rate", "50")];
    let before = world.call(&call_id).await;
    for second in [None, Some(("ring", "0")), Some(("ring", "2")), Some(("ring", "yes"))] {
        let filled: Vec<(&str, &str)> = one.into_iter().chain(second).collect();
        let refused = browser.submit(&form, &filled).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{second:?}: {}", refused.html);
        assert!(refused.contains("phones that could ring: 1; confirm that too"), "{}", refused.html);
    }
    // The second confirmation alone is not enough either.
    let alone = browser.submit(&form, &[REASON, ("ring", "1"), ("rate", "50")]).await;
    assert_eq!(alone.status, StatusCode::UNPROCESSABLE_ENTITY);
    consume_all(&world).await;
    assert_eq!((world.call(&call_id).await.version, audited(&world).await), (before.version, 0));

    let started = browser.submit(&form, &[&one[..], &[("ring", "1")]].concat()).await;
    let page = ended(&browser, &started).await;
    assert!(page.contains("finished"), "{}", page.html);
    consume_all(&world).await;
    assert!(world.call(&call_id).await.is_pending());
}
