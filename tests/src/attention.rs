//! The index of inbox items that a person should look at.

use switchhook_aws::inbox::{Attention, AttentionKind};

use crate::world::World;

impl World {
    /// The items of a kind that a person should look at, the earliest first.
    ///
    /// # Panics
    /// If the index cannot be read.
    pub async fn attention(&self, kind: AttentionKind) -> Vec<Attention> {
        let mut found = Vec::new();
        for shard in self.inbox.attention_shards() {
            let mut pages = self.inbox.attention_pages(kind, shard, None, None);
            while let Some(page) = pages.next().await.unwrap_or_else(|error| panic!("{}", error.with_causes())) {
                found.extend(page.items);
            }
        }
        found.sort_by(|a, b| (a.at, &a.item_key).cmp(&(b.at, &b.item_key)));
        found
    }
}
