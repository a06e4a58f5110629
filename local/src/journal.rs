//! Journals: tables in the data directory that hold the entries of the queues and of the bus, by number.

use dynoxide::DynoxideError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::database::Database;
use crate::error::LocalError;

#[derive(Debug)]
pub(crate) struct Journal {
    database: Database,
    table: &'static str,
    insert: String,
    delete: String,
}

/// Change of a journal.
pub(crate) enum Change<'a, T> {
    /// Writes an entry. No entry has its number yet.
    Write(u64, &'a T),
    /// Deletes an entry, if there is one with this number.
    Erase(u64),
}

impl Journal {
    pub(crate) fn open(database: &Database, table: &'static str) -> Result<Self, LocalError> {
        let create =
            format!("CREATE TABLE IF NOT EXISTS \"{table}\" (number INTEGER PRIMARY KEY, entry BLOB NOT NULL)");
        let created = database.run(async |storage| Ok(storage.conn().execute_batch(&create)?));
        created.map_err(|source| LocalError::CreateTable { table: table.to_owned(), source })?;
        Ok(Self {
            database: database.clone(),
            table,
            insert: format!("INSERT INTO \"{table}\" VALUES (?1, ?2)"),
            delete: format!("DELETE FROM \"{table}\" WHERE number = ?1"),
        })
    }

    /// Carries out all changes, or none.
    pub(crate) fn change<T: Serialize>(&self, changes: &[Change<'_, T>]) -> Result<(), LocalError> {
        // Entries are encoded before the database is locked.
        let mut encoded = Vec::with_capacity(changes.len());
        for change in changes {
            encoded.push(match change {
                Change::Write(number, entry) => (row_id(*number), Some(self.encode(entry)?)),
                Change::Erase(number) => (row_id(*number), None),
            });
        }
        let changed = self.database.transaction(|storage| {
            for (number, entry) in encoded {
                match entry {
                    Some(entry) => storage.conn().prepare_cached(&self.insert)?.execute((number, entry))?,
                    None => storage.conn().prepare_cached(&self.delete)?.execute((number,))?,
                };
            }
            Ok(())
        });
        changed.map_err(|source| LocalError::WriteJournal { table: self.table, source })
    }

    /// Returns all entries, in the order of their numbers.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, LocalError> {
        let select = format!("SELECT entry FROM \"{}\" ORDER BY number", self.table);
        let entries: Result<Vec<Vec<u8>>, DynoxideError> = self.database.run(async |storage| {
            let mut statement = storage.conn().prepare(&select)?;
            let entries = statement.query_map([], |row| row.get(0))?;
            Ok(entries.collect::<Result<_, _>>()?)
        });
        let entries = entries.map_err(|source| LocalError::ReadJournal { table: self.table, source })?;
        let decode = |entry: Vec<u8>| serde_json::from_slice(&entry);
        let decoded = entries.into_iter().map(decode).collect::<Result<_, _>>();
        decoded.map_err(|source| LocalError::DecodeEntry { table: self.table, source })
    }

    fn encode(&self, entry: &impl Serialize) -> Result<Vec<u8>, LocalError> {
        serde_json::to_vec(entry).map_err(|source| LocalError::EncodeEntry { table: self.table, source })
    }
}

/// A number as SQLite stores it. Numbers are made from the time, far below the limit.
pub(crate) fn row_id(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        Journal::open(&Database::memory().unwrap(), "switchhook-local-test").unwrap()
    }

    #[test]
    fn entries_come_back_in_the_order_of_their_numbers() {
        let journal = journal();
        journal.change(&[Change::Write(300, &"c"), Change::Write(2, &"a"), Change::Write(10, &"b")]).unwrap();
        journal.change::<String>(&[Change::Erase(10), Change::Erase(11)]).unwrap();

        assert_eq!(journal.read::<String>().unwrap(), ["a", "c"]);
    }

    #[test]
    fn entry_has_the_size_of_the_largest_message() {
        let journal = journal();
        let large = "x".repeat(1024 * 1024);
        journal.change(&[Change::Write(1, &large)]).unwrap();

        assert_eq!(journal.read::<String>().unwrap(), [large]);
    }

    #[test]
    fn changes_are_carried_out_together() {
        let journal = journal();
        journal.change(&[Change::Write(1, &"a")]).unwrap();
        // The second entry has a number that is taken.
        journal.change(&[Change::Erase(1), Change::Write(2, &"b"), Change::Write(2, &"c")]).unwrap_err();

        assert_eq!(journal.read::<String>().unwrap(), ["a"]);
    }
}
