//! The do-not-call list: numbers that are not dialled.
//!
//! **Both tables hold every entry, and the later one counts.** So if a table was lost, or restored to an earlier time, no blocked
//! number is dialled, and no unblocked number is blocked again. For this, an unblocked number keeps an entry for some weeks.
//!
//! **Numbers are compared by their canonical form**, so another notation of a blocked number is blocked too.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::try_join;
use switchhook_domain::{DO_NOT_CALL_PREFIX, PhoneNumber, Timestamp};

use crate::calls::Calls;
use crate::dynamodb::{Item, expires_at, number as numeric, text};
use crate::error::{Error, Source};
use crate::inbox::Inbox;

/// Time for which the entry of an unblocked number is kept. Continuous backups reach back 35 days.
const UNBLOCKED_RETENTION: Duration = Duration::from_secs(36 * 24 * 60 * 60);
const BLOCKED: &str = "blocked";
const CHANGED_AT: &str = "changed_at";

/// The list, over both tables.
#[derive(Clone, Copy, Debug)]
pub struct DoNotCallList<'a> {
    in_calls: Entries<'a>,
    in_inbox: Entries<'a>,
}

/// Entries in one table.
#[derive(Clone, Copy, Debug)]
struct Entries<'a> {
    client: &'a Client,
    table: &'a str,
    key_name: &'static str,
    read_error: fn(Source) -> Error,
    write_error: fn(Source) -> Error,
}

/// Entry of one number. The later of two entries is the greater one. Of two entries of the same time, the one that blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    changed_at: Timestamp,
    is_blocked: bool,
}

impl<'a> DoNotCallList<'a> {
    #[must_use]
    pub const fn new(calls: &'a Calls, inbox: &'a Inbox) -> Self {
        let in_calls = Entries {
            client: &calls.client,
            table: calls.table.as_str(),
            key_name: "call_id",
            read_error: Error::ReadCall,
            write_error: Error::WriteCall,
        };
        let in_inbox = Entries {
            client: &inbox.client,
            table: inbox.table.as_str(),
            key_name: "event_id",
            read_error: Error::ReadInbox,
            write_error: Error::WriteInbox,
        };
        Self { in_calls, in_inbox }
    }

    /// True if the number may not be called.
    ///
    /// # Errors
    /// [`Error::ReadCall`], [`Error::ReadInbox`].
    pub async fn contains(&self, number: &PhoneNumber) -> Result<bool, Error> {
        let (in_calls, in_inbox) = try_join(self.in_calls.read(number), self.in_inbox.read(number)).await?;
        Ok(in_calls.max(in_inbox).is_some_and(|entry| entry.is_blocked))
    }

    /// Puts a number on the list.
    ///
    /// # Errors
    /// [`Error::WriteCall`], [`Error::WriteInbox`]. A repetition is safe.
    pub async fn block(&self, number: &PhoneNumber, now: Timestamp) -> Result<(), Error> {
        self.write(number, Entry { changed_at: now, is_blocked: true }).await
    }

    /// Takes a number off the list.
    ///
    /// # Errors
    /// [`Error::WriteCall`], [`Error::WriteInbox`]. A repetition is safe.
    pub async fn unblock(&self, number: &PhoneNumber, now: Timestamp) -> Result<(), Error> {
        self.write(number, Entry { changed_at: now, is_blocked: false }).await
    }

    /// Takes a number off the list, and erases its entries.
    ///
    /// # Errors
    /// [`Error::WriteCall`], [`Error::WriteInbox`]. A repetition is safe.
    pub async fn erase(&self, number: &PhoneNumber) -> Result<(), Error> {
        try_join(self.in_calls.delete(number), self.in_inbox.delete(number)).await.map(drop)
    }

    async fn write(&self, number: &PhoneNumber, entry: Entry) -> Result<(), Error> {
        try_join(self.in_calls.write(number, entry), self.in_inbox.write(number, entry)).await.map(drop)
    }
}

impl Entries<'_> {
    async fn read(&self, number: &PhoneNumber) -> Result<Option<Entry>, Error> {
        let request = self.client.get_item().table_name(self.table).key(self.key_name, key(number));
        let answer = request.consistent_read(true).send().await.map_err(|error| (self.read_error)(Box::new(error)))?;
        Ok(answer.item.as_ref().map(Entry::decode))
    }

    async fn write(&self, number: &PhoneNumber, entry: Entry) -> Result<(), Error> {
        let mut item = entry.encode();
        item.insert(self.key_name.to_owned(), key(number));
        let request = self.client.put_item().table_name(self.table).set_item(Some(item));
        request.send().await.map(drop).map_err(|error| (self.write_error)(Box::new(error)))
    }

    async fn delete(&self, number: &PhoneNumber) -> Result<(), Error> {
        let request = self.client.delete_item().table_name(self.table).key(self.key_name, key(number));
        request.send().await.map(drop).map_err(|error| (self.write_error)(Box::new(error)))
    }
}

impl Entry {
    fn encode(self) -> Item {
        let mut item = Item::from([
            (BLOCKED.to_owned(), AttributeValue::Bool(self.is_blocked)),
            (CHANGED_AT.to_owned(), numeric(self.changed_at.as_millis())),
        ]);
        if !self.is_blocked {
            item.insert("expires_at".to_owned(), numeric(expires_at(self.changed_at, UNBLOCKED_RETENTION)));
        }
        item
    }

    /// Reads an entry. An entry that somebody wrote by hand, with its key alone, blocks.
    fn decode(item: &Item) -> Self {
        let changed_at = item.get(CHANGED_AT).and_then(|at| at.as_n().ok()?.parse().ok());
        let is_blocked = item.get(BLOCKED).and_then(|blocked| blocked.as_bool().ok());
        Self {
            changed_at: Timestamp::from_millis(changed_at.unwrap_or_default()),
            is_blocked: *is_blocked.unwrap_or(&true),
        }
    }
}

fn key(number: &PhoneNumber) -> AttributeValue {
    text(&format!("{DO_NOT_CALL_PREFIX}{}", number.canonical().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_entry_counts_and_a_blocking_one_wins_a_tie() {
        let entry = |at: i64, is_blocked: bool| Entry { changed_at: Timestamp::from_millis(at), is_blocked };
        for (one, other, winner) in [
            (Some(entry(1, true)), Some(entry(2, false)), Some(entry(2, false))),
            (Some(entry(1, false)), Some(entry(2, true)), Some(entry(2, true))),
            (Some(entry(1, true)), Some(entry(1, false)), Some(entry(1, true))),
            (None, Some(entry(1, false)), Some(entry(1, false))),
            (None, None, None),
        ] {
            assert_eq!((one.max(other), other.max(one)), (winner, winner));
        }
    }

    #[test]
    fn entry_reads_back_and_only_that_of_an_unblocked_number_expires() {
        for is_blocked in [true, false] {
            let entry = Entry { changed_at: Timestamp::from_millis(1_767_225_600_000), is_blocked };
            assert_eq!(Entry::decode(&entry.encode()), entry);
            assert_eq!(entry.encode().contains_key("expires_at"), !is_blocked);
        }
        assert!(Entry::decode(&Item::new()).is_blocked);
    }
}
