//! Test that a server can spawn every operation of this crate as a task, on a runtime with several threads.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use switchhook_domain::EventId;

use crate::events::Tail;
use crate::mask::Masker;
use crate::plan::Plan;
use crate::{
    Stack, StackNames, audit, bench, calls, check, copy, dead_letters, dials, events, forget, providers, quarantine,
    recover, repair, replay, republish, run, search, secrets, selection, stack, status, timeline, verify,
};

/// Compiles only if a task of its own can run the future.
fn can_be_spawned<F: Future + Send + 'static>(_: F) {}

/// Stands for an argument. No future of this file is ever polled.
fn any<T>() -> T {
    unreachable!("the futures are not polled")
}

fn minutes(_: u64, _: u64) {}

#[test]
fn every_public_future_can_be_spawned() {
    can_be_spawned(async { Stack::connect(&any(), any()).await });
    can_be_spawned(async { any::<Stack>().caller().await });
    can_be_spawned(async { any::<Stack>().read_clock().await });
    can_be_spawned(async { any::<Stack>().metrics(any::<Vec<_>>().as_slice(), any()).await });
    can_be_spawned(async { any::<Stack>().run(any()).await });
    can_be_spawned(async { StackNames::of_dev(&any::<String>()).await });
    can_be_spawned(async { stack::time_of_dev(&any::<String>()).await });
    can_be_spawned(async { audit::begin(&any(), any(), any(), any()).await });
    can_be_spawned(async { audit::finish(&any(), any(), any()).await });
    can_be_spawned(async { audit::list(&any(), any()).await });
    can_be_spawned(async { audit::record_unmasking(&any(), &any(), &any::<String>()).await });
    can_be_spawned(async { bench::bench(&any(), &any(), std::future::pending, &mut |_, _| {}, &mut |_| {}).await });
    can_be_spawned(async { bench::clean_up(&any(), &any()).await });
    can_be_spawned(async { calls::list(&any(), &any()).await });
    can_be_spawned(async { calls::stuck(&any(), any()).await });
    can_be_spawned(async { check::check(&any(), &any(), std::future::pending(), &mut |_| {}).await });
    can_be_spawned(async { check::clean_up(&any(), &any(), &mut |_| {}).await });
    can_be_spawned(async { copy::plan(&any(), &any(), any(), any()).await });
    can_be_spawned(async { dead_letters::find(&any(), any()).await });
    can_be_spawned(async { dead_letters::list(&any(), any()).await });
    can_be_spawned(async { dead_letters::plan_discard(&any(), &any(), any()).await });
    can_be_spawned(async { dead_letters::plan_redrive(&any(), &any(), any()).await });
    can_be_spawned(async { dials::dials(&any()).await });
    can_be_spawned(async { dials::is_blocked(&any(), &any()).await });
    can_be_spawned(async { events::list(&any(), &any()).await });
    can_be_spawned(async { events::show(&any(), &any()).await });
    can_be_spawned(async { events::show_masked(&any(), &any(), &mut any::<Masker>()).await });
    can_be_spawned(async { events::status(&any(), &any()).await });
    can_be_spawned(async { events::unfolded(&any(), &any(), any()).await });
    can_be_spawned(async { events::unmasked(&any(), &any::<EventId>(), &any::<String>()).await });
    can_be_spawned(async { any::<Tail>().poll(&any()).await });
    can_be_spawned(async { forget::plan(&any(), &any(), any(), &mut minutes).await });
    can_be_spawned(async { Plan::load(&any(), &any()).await });
    can_be_spawned(async { providers::providers(&any()).await });
    can_be_spawned(async { quarantine::list(&any(), any()).await });
    can_be_spawned(async { quarantine::plan_discard(&any(), &any(), any()).await });
    can_be_spawned(async { quarantine::plan_reprocess(&any(), &any(), any()).await });
    can_be_spawned(async { quarantine::show(&any(), &any()).await });
    can_be_spawned(async { recover::plan_refill(&any(), any(), any(), &mut minutes).await });
    can_be_spawned(async { recover::plan_stop(&any(), any(), any(), any()).await });
    can_be_spawned(async { repair::failed_messages(&any()).await });
    can_be_spawned(async { repair::groups(&any(), any()).await });
    can_be_spawned(async { replay::plan(&any(), &any(), any(), &mut minutes).await });
    can_be_spawned(async { republish::failures(&any()).await });
    can_be_spawned(async { republish::plan(&any(), &any(), any(), &mut minutes).await });
    can_be_spawned(async { republish::republish_call(&any(), &any(), &any()).await });
    can_be_spawned(async { run::check_plan(&any(), &any(), any()).await });
    can_be_spawned(async { run::get(&any(), &any()).await });
    can_be_spawned(async { run::list(&any(), any()).await });
    can_be_spawned(async { run::plan_to_resume(&any(), &any()).await });
    can_be_spawned(async { run::resume(&any(), &any(), &any::<String>(), &mut |_| ControlFlow::Continue(())).await });
    can_be_spawned(async { run::start(&any(), &any(), any(), any(), &mut |_| ControlFlow::Continue(())).await });
    can_be_spawned(async { search::find(&any(), &any::<String>()).await });
    can_be_spawned(async { search::search(&any(), &any::<String>()).await });
    can_be_spawned(async { secrets::plan(&any(), &any(), any()).await });
    can_be_spawned(async { secrets::store(&any(), &any()).await });
    can_be_spawned(async { selection::changed_since(&any(), &any(), any(), any(), &mut minutes).await });
    can_be_spawned(async { selection::calls_since(&any(), &any(), any(), any(), &mut minutes).await });
    can_be_spawned(async { status::status(&any()).await });
    can_be_spawned(async { timeline::find_by_id(&any(), &any()).await });
    can_be_spawned(async { verify::plan_repair(&any(), &any(), &any(), any()).await });
    can_be_spawned(async { verify::verify(&any(), &any(), any(), &mut minutes).await });
}

#[test]
fn no_public_async_function_is_missing_above() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let listed = include_str!("spawn_tests.rs");
    let mut missing = Vec::new();
    for path in files_below(&source) {
        let text = fs::read_to_string(&path).unwrap();
        let module = path.strip_prefix(&source).unwrap().with_extension("");
        let module = module.iter().next().unwrap().to_str().unwrap();
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub async fn ") else { continue };
            let name = rest.split(['(', '<']).next().unwrap();
            let call = if line.starts_with(' ') { format!("{name}(") } else { format!(" {module}::{name}(") };
            if !listed.contains(&call) {
                missing.push(call);
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
