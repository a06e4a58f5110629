//! A data directory after `kill -9`, at many different moments.
#![expect(clippy::unwrap_used, reason = "allow-unwrap-in-tests does not cover the helpers of a test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use switchhook_local::clock::Clock;
use switchhook_local::sqs::queue_url;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, Options, Services};

const DATA_DIR: &str = "SWITCHHOOK_LOCAL_TEST_DATA_DIR";
const ROUNDS: usize = 40;
/// Microseconds by which the delay between the end of a step and the kill grows in every round. All rounds together
/// spread the kills evenly over about one step.
const KILL_DELAY_US_STEP: u64 = 20;
const ROWS: usize = 3;
/// Number of first starts that are killed, each a little later than the one before.
const FIRST_STARTS: u64 = 30;
const FIRST_START_STEP: Duration = Duration::from_millis(1);

/// Lets only one test run at a time. A child process that is being started briefly inherits the locked directory of
/// another test.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn killed_process_loses_nothing_it_acknowledged() {
    let dir = std::env::temp_dir().join(format!("switchhook-local-{}-kill", std::process::id()));
    drop(std::fs::remove_dir_all(&dir));
    let _alone = ONE_AT_A_TIME.lock().await;

    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let delay = Duration::from_micros(round as u64 * KILL_DELAY_US_STEP);
        acknowledged = run_and_kill(&dir, acknowledged + 3, delay);
        let services = Services::open(Options::new(Clock::system()).data_dir(&dir)).unwrap();
        check(&services, acknowledged).await;
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn killed_first_start_leaves_a_directory_that_opens() {
    let dir = std::env::temp_dir().join(format!("switchhook-local-{}-first", std::process::id()));
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut unfinished = 0;
    for start in 0..FIRST_STARTS {
        drop(std::fs::remove_dir_all(&dir));
        let mut child = writer_in(&dir);
        // Waits until the database file exists.
        while !dir.join("unfinished.sqlite").exists() && !dir.join("switchhook.sqlite").exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(FIRST_START_STEP * u32::try_from(start).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        unfinished += u32::from(dir.join("unfinished.sqlite").exists());

        let services = Services::open(Options::new(Clock::system()).data_dir(&dir)).unwrap();
        let dynamodb = aws_sdk_dynamodb::Client::new(&services.sdk_config());
        let put = dynamodb.put_item().table_name(CALLS_TABLE).item("call_id", AttributeValue::S("c".to_owned()));
        put.send().await.unwrap();
        assert!(!services.dynamodb().stream().next_batch(usize::MAX).is_empty());
    }
    assert!(unfinished > 0, "no first start was killed halfway");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// SQLite replays the log that it finds beside a database, even if the log belongs to another one.
#[tokio::test]
async fn log_without_its_database_is_not_replayed() {
    let dir = std::env::temp_dir().join(format!("switchhook-local-{}-log", std::process::id()));
    drop(std::fs::remove_dir_all(&dir));
    let _alone = ONE_AT_A_TIME.lock().await;
    run_and_kill(&dir, ROWS, Duration::ZERO);
    assert!(std::fs::metadata(dir.join("switchhook.sqlite-wal")).unwrap().len() > 0);
    std::fs::remove_file(dir.join("switchhook.sqlite")).unwrap();

    let services = Services::open(Options::new(Clock::system()).data_dir(&dir)).unwrap();
    assert!(services.sqs().messages(EVENTS_QUEUE).unwrap().is_empty());
    let dynamodb = aws_sdk_dynamodb::Client::new(&services.sdk_config());
    assert_eq!(dynamodb.scan().table_name(CALLS_TABLE).send().await.unwrap().count(), 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The process that is killed. Step `n` writes version `n / ROWS` of row `n % ROWS`, sends message `n`, and prints `n`.
#[tokio::test]
#[ignore = "runs as the child process of the other test, which kills it"]
async fn writer() {
    let Ok(dir) = std::env::var(DATA_DIR) else { return };
    let services = Services::open(Options::new(Clock::system()).data_dir(dir)).unwrap();
    let dynamodb = aws_sdk_dynamodb::Client::new(&services.sdk_config());
    let sqs = aws_sdk_sqs::Client::new(&services.sdk_config());
    let done = services.sqs().messages(EVENTS_QUEUE).unwrap().len();
    for step in done.. {
        let (row, version) = (step % ROWS, step / ROWS);
        let put = dynamodb.put_item().table_name(CALLS_TABLE).item("call_id", AttributeValue::S(row.to_string()));
        put.item("version", AttributeValue::N(version.to_string())).send().await.unwrap();
        let send = sqs.send_message().queue_url(queue_url(EVENTS_QUEUE)).message_body(step.to_string());
        send.message_group_id(row.to_string()).message_deduplication_id(step.to_string()).send().await.unwrap();
        println!("step {step}");
    }
}

fn writer_in(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--ignored", "--nocapture"]).env(DATA_DIR, dir).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns the number of steps that the process reported as done.
fn run_and_kill(dir: &Path, steps: usize, delay: Duration) -> usize {
    let mut child = writer_in(dir);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut done = 0;
    for line in lines {
        let Some(step) = line.strip_prefix("step ") else { continue };
        done = step.parse::<usize>().unwrap() + 1;
        if done == steps {
            let read = Instant::now();
            while read.elapsed() < delay {}
            // The loop still reads all lines that the process wrote before it ended.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(done >= steps, "the writer stopped by itself after {done} steps");
    done
}

async fn check(services: &Services, acknowledged: usize) {
    let bodies: Vec<String> =
        services.sqs().messages(EVENTS_QUEUE).unwrap().into_iter().map(|message| message.body).collect();
    let expected: Vec<String> = (0..bodies.len()).map(|step| step.to_string()).collect();
    assert_eq!(bodies, expected);
    assert!((acknowledged..=acknowledged + 1).contains(&bodies.len()), "{} of {acknowledged}", bodies.len());

    let dynamodb = aws_sdk_dynamodb::Client::new(&services.sdk_config());
    for row in 0..ROWS {
        let row = row.to_string();
        let key = AttributeValue::S(row.clone());
        let found = dynamodb.get_item().table_name(CALLS_TABLE).key("call_id", key).send().await.unwrap();
        let version = found.item().unwrap().get("version").unwrap().as_n().unwrap().clone();

        let mut image = None;
        let mut changes = 0;
        for record in services.dynamodb().stream().next_batch(usize::MAX) {
            let record = record.to_event_record();
            let change = |pointer: &str| record.pointer(pointer).cloned();
            if change("/dynamodb/Keys/call_id/S") != Some(json!(row)) {
                continue;
            }
            assert_eq!(change("/dynamodb/OldImage"), image, "row {row}: a record begins where the last one ended");
            image = change("/dynamodb/NewImage");
            changes += 1;
        }
        let last = image.as_ref().and_then(|image| image.pointer("/version/N"));
        assert_eq!(last, Some(&json!(version)), "row {row}: the last record is the row");
        assert_eq!(version.parse(), Ok(changes - 1), "row {row}: one record for each version");
    }
}
