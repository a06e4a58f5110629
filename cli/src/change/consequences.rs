//! Consequences of a plan for calls, subscribers and phones.

use std::io::{self, Write};

use switchhook_operate::plan::{Plan, Table};

/// Warning of a plan that copies rows of calls. It reads no row, so it cannot count the phones.
const COPY_COULD_RING: &str = "\
Calls that are due are dialled as soon as they are copied, unless dialling is stopped (docs/recovery.md):
  aws lambda put-function-concurrency --function-name DIALER_FUNCTION_NAME --reserved-concurrent-executions 0";

/// Prints what a run would cause.
pub(super) fn print_consequences(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    if plan.tables.iter().any(|copied| copied.table == Table::Calls) {
        return writeln!(out, "{COPY_COULD_RING}");
    }
    let changed = plan.effects.iter().filter(|effect| effect.before != effect.after).count();
    writeln!(
        out,
        "Calls that change state: {changed}. Domain events: {}, corrections among them: {}. Phones that could ring: {}.",
        plan.domain_events, plan.corrections, plan.phones
    )
}
