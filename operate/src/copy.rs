//! Copies of restored or retained tables into the tables of a stack.
//!
//! **The items of a plan are parts of tables**, so a run that was interrupted goes on at the part that it had reached. The inbox is
//! copied first, because it knows which calls were dialled. An item whose key the table of the stack has stays as it is there.

use serde_json::json;
pub use switchhook_aws::copy::Counted;
use switchhook_aws::copy::{CopyCounts, TableCopy, TablePart, TableSize, copy_part, has_key, measure};
use switchhook_aws::failure::Failure;

use crate::cost::Cost;
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::plan::{Action, CopiedTable, Plan, PlanItem, Table, Verb};
use crate::stack::Stack;

/// Items of a part, on average.
const PART_ITEMS: u64 = 500;
/// Largest number of parts of a table. Parts of a larger table are larger.
const PARTS_MAX: u64 = 10_000;

/// Tables whose items are copied into the tables of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFrom {
    pub inbox: Option<String>,
    pub calls: Option<String>,
}

impl Table {
    const fn key(self) -> &'static str {
        match self {
            Self::Inbox => "event_id",
            Self::Calls => "call_id",
        }
    }

    fn of_stack(self, stack: &Stack) -> &str {
        match self {
            Self::Inbox => &stack.names.inbox_table,
            Self::Calls => &stack.names.calls_table,
        }
    }

    fn of_request(self, from: &CopyFrom) -> Option<&String> {
        match self {
            Self::Inbox => from.inbox.as_ref(),
            Self::Calls => from.calls.as_ref(),
        }
    }
}

/// Plans to copy the items of tables. Reads each table once, to count its items. `counted` shows the progress.
///
/// # Errors
/// [`Refusal::EmptyFilter`] if no table is named, and [`Refusal::SameTable`] if a table would be copied into itself.
/// [`Refusal::UnknownTable`] if one does not exist. [`Refusal::OtherKey`] if one is of the other kind. [`Refusal::LargeTable`] if one has more than `items_max` items. [`Refusal::MoreShards`] if the stack would not read all shards of one. Also the errors of the tables.
pub async fn plan(stack: &Stack, from: &CopyFrom, items_max: usize, counted: Counted<'_>) -> Result<Plan, Error> {
    let named = Table::ALL.into_iter().filter_map(|table| Some((table, table.of_request(from)?)));
    let named: Vec<(Table, &String)> = named.collect();
    if named.is_empty() {
        return Err(Refusal::EmptyFilter("name a table with --inbox-from or --calls-from").into());
    }
    if let Some((table, _)) = named.iter().find(|(table, from)| table.of_stack(stack) == from.as_str()) {
        return Err(Refusal::SameTable(table.of_stack(stack).to_owned()).into());
    }
    for &(table, from) in &named {
        let is_right_kind = has_key(&stack.dynamodb, from, table.key()).await;
        if !is_right_kind.map_err(|error| error_of_table(error, from))? {
            return Err(Refusal::OtherKey { table: from.clone(), key: table.key() }.into());
        }
    }
    let most = items_max as u64;
    let (mut items, mut tables, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (table, from) in named {
        let size = measure(&stack.dynamodb, from, table.key(), most, counted).await;
        let size = size.map_err(|error| error_of_table(error, from))?;
        if size.items > most {
            return Err(Refusal::LargeTable { table: from.clone(), most }.into());
        }
        let shards = stack.calls.index_shards().max();
        if size.shards > shards {
            return Err(Refusal::MoreShards { table: from.clone(), shards: size.shards, most: shards }.into());
        }
        let parts = u32::try_from(size.items.div_ceil(PART_ITEMS).min(PARTS_MAX)).unwrap_or(u32::MAX);
        items.extend((0..parts).map(|index| item_of(table, index)));
        let sample = size.sample.clone();
        tables.push(CopiedTable { table, from: from.clone(), items: size.items, parts, sample });
        sizes.push(size);
    }
    let filter = json!({ "inbox_from": from.inbox, "calls_from": from.calls });
    let examined = tables.iter().map(|table| usize::try_from(table.items).unwrap_or(usize::MAX)).sum();
    let draft =
        Draft { verb: Verb::Copy, filter, items, capped: false, continue_at: None, examined, not_found: Vec::new() };
    let mut plan = draft.work_out(stack).await?;
    plan.cost = sizes.iter().map(cost_of).fold(Cost::default(), Cost::plus);
    plan.tables = tables;
    plan.store(stack).await?;
    Ok(plan)
}

/// Returns the error of a table that could not be read. The answer of DynamoDB about a table that does not exist lacks its name. Its answer about a
/// name that no table can have says nothing of a table.
fn error_of_table(error: switchhook_aws::Error, table: &str) -> Error {
    match Failure::of(&error) {
        Some(Failure::Refused { code, .. })
            if ["ResourceNotFoundException", "ValidationException"].contains(&code.as_str()) =>
        {
            Refusal::UnknownTable(table.to_owned()).into()
        }
        Some(Failure::Refused { .. } | Failure::NoCredentials | Failure::NoAnswer) | None => error.into(),
    }
}

/// Copies one part, at most `rate` items a second.
pub(crate) async fn carry_out(stack: &Stack, plan: &Plan, item: &PlanItem, rate: u32) -> Result<CopyCounts, Error> {
    let place = item.key.as_deref().and_then(|key| key.split_once(':'));
    let planned = place.and_then(|(name, index)| {
        let table = plan.tables.iter().find(|table| table.table.as_str() == name)?;
        Some((table, index.parse().ok()?))
    });
    let (planned, index) = planned.ok_or(Error::Decode("the part of a table"))?;
    let to = planned.table.of_stack(stack);
    let copy = TableCopy { from: &planned.from, to, key: planned.table.key() };
    let part = TablePart { index, of: planned.parts };
    Ok(copy_part(&stack.dynamodb, copy, part, rate, stack.now()).await?)
}

fn item_of(table: Table, index: u32) -> PlanItem {
    PlanItem::of_key(Action::CopyPart, format!("{}:{index}", table.as_str()))
}

fn cost_of(size: &TableSize) -> Cost {
    Cost::of_copy(size.items, size.read_units, size.requests)
}
