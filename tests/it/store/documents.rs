//! Documents of operators: plans, runs and audit records.

use std::time::Duration;

use switchhook_aws::inbox::{Document, DocumentKind};
use switchhook_domain::EventId;
use switchhook_tests::World;

use crate::traffic::{at, noise};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn document_is_stored_once_and_reads_back_in_one_item_or_in_chunks() {
    let world = World::stopped();
    let long = noise(1_000_000);
    for (id, content) in [("p-1", &b"{}"[..]), ("p-2", long.as_bytes()), ("p-3", b"")] {
        let kind = DocumentKind::Plan;
        assert!(world.inbox.put_document(kind, id, content, DAY, at(0)).await.unwrap(), "{id}");
        let stored = world.inbox.get_document(kind, id).await.unwrap();
        assert_eq!(stored, Some(Document { content: content.to_vec(), version: 1 }), "{id}");
        assert_eq!(world.inbox.get_document(DocumentKind::Run, id).await.unwrap(), None, "{id}");
        assert!(world.inbox.get(&EventId::new(format!("plan:{id}"))).await.unwrap().is_none(), "{id} is no event");
    }
    assert!(!world.inbox.put_document(DocumentKind::Plan, "p-1", b"other", DAY, at(0)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn document_is_replaced_by_whoever_read_its_latest_version() {
    let world = World::stopped();
    let kind = DocumentKind::Run;
    assert!(world.inbox.put_document(kind, "r-1", b"one", DAY, at(0)).await.unwrap());
    assert!(world.inbox.replace_document(kind, "r-1", b"two", 1, DAY, at(0)).await.unwrap());
    let lost = world.inbox.replace_document(kind, "r-1", b"lost", 1, DAY, at(0)).await.unwrap();
    assert!(!lost, "another writer came first");
    let stored = world.inbox.get_document(kind, "r-1").await.unwrap();
    assert_eq!(stored, Some(Document { content: b"two".to_vec(), version: 2 }));
}
