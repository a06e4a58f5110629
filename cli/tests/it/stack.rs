//! A `switchhook dev` for each test, and helpers to use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const KEY: &str = "the generic key, which is as long as it must be";
/// Longest wait for anything that must come. If a stack is killed while its consumer has a message, that message and the later ones of its
/// call are hidden for a minute. The rest is for a busy machine.
const WAIT: Duration = Duration::from_secs(150);
/// Type of the events that mark the end of the domain events so far.
const MARKER: &str = "test.marker";
/// Number that the calls of these tests call.
pub(crate) const PERSON: &str = "+447700900123";
/// Command that creates a call to [`PERSON`].
pub(crate) const CREATE_CALL: [&str; 8] =
    ["call", "create", "--provider", "retell", "--from-number", "+442079460018", "--to-number", PERSON];
/// Path of the binary under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_switchhook");

pub(crate) fn switchhook(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    without_choice(command.args(arguments)).output().expect("the binary starts")
}

/// Runs a command on a stack. Returns its exit status, its output and its errors.
pub(crate) fn run(stack: &Stack, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = switchhook(&[arguments, &["--to", &stack.url]].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Hides from a command the stack that the user of this machine has chosen.
pub(crate) fn without_choice(command: &mut Command) -> &mut Command {
    let nowhere = std::env::temp_dir().join("switchhook-cli-nowhere");
    for variable in ["RUST_LOG", "SWITCHHOOK_STACK", "SWITCHHOOK_TO"] {
        command.env_remove(variable);
    }
    command.env("XDG_CONFIG_HOME", &nowhere).env("XDG_STATE_HOME", &nowhere)
}

/// Runs a printed line unchanged in a shell.
pub(crate) fn pasted(line: &str) -> Output {
    let mut command = Command::new("sh");
    without_choice(command.args(["-c", line])).output().expect("a shell starts")
}

/// Sends a signal to a process, with the `kill` that is built into the shell: a machine may not have `/bin/kill`.
pub(crate) fn signal(signal: &str, process: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill {signal} {process}")]).status().expect("a shell starts");
    assert!(sent.success(), "{signal} to {process}");
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Waits until `look` finds something, and returns it. Fails after [`WAIT`], with the name of the missing thing and the last look.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + WAIT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < until, "{what}: it never came. Instead: {instead}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A directory that is deleted when the value is dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("switchhook-cli-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    /// Writes a providers file with known keys, and returns its path.
    pub(crate) fn providers(&self) -> PathBuf {
        let path = self.0.join("providers.json");
        let retell = r#"{"keys":["a key for Retell"],"dial":{"api_key":"an API key of Retell"}}"#;
        let document = format!(r#"{{"generic":{{"keys":["{KEY}"]}},"retell":{retell}}}"#);
        std::fs::write(&path, document).expect("the file is written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A running stack. It is killed when the value is dropped.
pub(crate) struct Stack {
    child: Child,
    errors: Option<BufReader<ChildStderr>>,
    /// Directory of the file in which the stack says where it listens.
    state: Arc<Scratch>,
    /// Address of the stack, for example `http://127.0.0.1:40123`.
    pub(crate) url: String,
    /// Link that opens its pages once.
    pub(crate) link: String,
}

impl Stack {
    /// Starts a stack and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(Arc::new(Scratch::new()), arguments)
    }

    /// Starts a stack with the keys of [`Scratch::providers`].
    pub(crate) fn with_known_keys(options: &[&str]) -> (Scratch, Self) {
        let scratch = Scratch::new();
        let providers = scratch.providers();
        let stack = Self::start(&[&["--providers", providers.to_str().expect("UTF-8")], options].concat());
        (scratch, stack)
    }

    /// Starts a stack with known keys whose schedules do not run during the test.
    pub(crate) fn quiet() -> (Scratch, Self) {
        Self::with_known_keys(&["--tick", "1h"])
    }

    /// Starts another stack of the same user.
    pub(crate) fn start_another(&self, arguments: &[&str]) -> Self {
        Self::start_in(Arc::clone(&self.state), arguments)
    }

    fn start_in(state: Arc<Scratch>, arguments: &[&str]) -> Self {
        let mut child = without_choice(&mut Command::new(PROGRAM))
            .args(["dev", "--port", "0", "--seed", "1", "--delivery-faults", "none"])
            .args(arguments)
            .env("XDG_STATE_HOME", &state.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("standard output");
        BufReader::new(out).read_line(&mut line).expect("a ready line");
        let url = line.strip_prefix("listening on ").expect("a ready line");
        let (url, link) = url.trim_end().split_once("; look at it: ").expect("a link to the pages");
        let (url, link) = (url.to_owned(), link.to_owned());
        let errors = child.stderr.take().map(BufReader::new);
        Self { child, errors, state, url, link }
    }

    /// Runs a command that finds this stack by itself.
    pub(crate) fn switchhook(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary starts")
    }

    /// Returns a command that finds this stack by itself.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        without_choice(command.args(arguments)).env("XDG_STATE_HOME", &self.state.0);
        command
    }

    /// Path of the file in which the stack says where it listens.
    pub(crate) fn state_file(&self) -> PathBuf {
        let port = self.url.rsplit(':').next().expect("a port");
        self.state.0.join(format!("switchhook/dev/{port}.json"))
    }

    /// Starts a stack that keeps its data in this directory.
    pub(crate) fn with_data(data: &Path, providers: &Path, options: &[&str]) -> Self {
        let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (data, providers) = (path(data), path(providers));
        Self::start(&[&["--data", &data, "--providers", &providers, "--tick", "1s"], options].concat())
    }

    /// Sends a sample webhook. Returns the exit status, the output and the errors of the command.
    pub(crate) fn send_sample(&self, sample: &str, key: &str) -> (Option<i32>, String, String) {
        let provider = sample.split('/').next().expect("a provider");
        run(self, &["send", "--provider", provider, "--key", key, "--sample", sample])
    }

    /// Reads standard error up to the next line that contains `part`, and returns that line.
    pub(crate) fn error_line(&mut self, part: &str) -> String {
        let errors = self.errors.as_mut().expect("standard error");
        loop {
            let mut line = String::new();
            assert!(errors.read_line(&mut line).expect("UTF-8") > 0, "it ended without {part}");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Closes the reading end of its standard error.
    pub(crate) fn close_errors(&mut self) {
        self.errors = None;
    }

    /// Presses Enter in its terminal.
    pub(crate) fn press_enter(&mut self) {
        self.child.stdin.as_mut().expect("standard input").write_all(b"\n").expect("it reads");
    }

    /// Kills the process, like `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is running");
        self.child.wait().expect("it ends");
    }

    /// Sends a signal and waits for the end. Returns the exit status, the rest of standard output, and standard error.
    pub(crate) fn stop(mut self, how: &str) -> (ExitStatus, String, String) {
        signal(how, self.child.id());
        let status = self.child.wait().expect("it ends");
        let (mut out, mut errors) = (String::new(), String::new());
        self.child.stdout.take().expect("standard output").read_to_string(&mut out).expect("UTF-8");
        self.errors.take().expect("standard error").read_to_string(&mut errors).expect("UTF-8");
        (status, out, errors)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let mut answer = agent().get(format!("{}{path}", self.url)).call().expect("an answer");
        let body = answer.body_mut().read_to_string().expect("a body");
        (answer.status() == 200).then(|| serde_json::from_str(&body).expect("JSON"))
    }

    /// Returns the domain events so far, each as its id, its type and its content.
    pub(crate) fn domain_events(&self, after: Option<&str>) -> Vec<(String, String, Value)> {
        domain_events(&self.url, after)
    }
}

/// Sends a request as an AWS SDK would.
pub(crate) fn aws(url: &str, target: &str, body: &Value) -> Value {
    let request = agent().post(format!("{url}/aws")).content_type("application/x-amz-json-1.0");
    let mut answer = request.header("x-amz-target", target).send(body.to_string()).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a body");
    assert_eq!(answer.status(), 200, "{target}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns the domain events of the stack at this URL so far, each as its id, its type and its content.
///
/// The stream never ends, so a marker is published first. The events before it are the events so far.
pub(crate) fn domain_events(url: &str, after: Option<&str>) -> Vec<(String, String, Value)> {
    static MARKERS: AtomicU32 = AtomicU32::new(0);
    let marker = format!("marker-{}-{}", std::process::id(), MARKERS.fetch_add(1, Ordering::Relaxed));
    let entry = json!({"Source": "test", "DetailType": MARKER, "Detail": json!({"id": marker}).to_string()});
    let published = aws(url, "AWSEvents.PutEvents", &json!({"Entries": [entry]}));
    assert_eq!(published["FailedEntryCount"], 0, "{published}");

    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("a timeout");
    let after = after.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
    // With HTTP/1.0 the body is not chunked.
    write!(stream, "GET /domain-events HTTP/1.0\r\nHost: localhost\r\n{after}\r\n").expect("it reads");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("the marker comes within a minute"));
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head.iter().any(|line| line.contains("text/event-stream")), "{head:?}");
    let mut events = Vec::new();
    loop {
        let event: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(!event.is_empty(), "the stream ended without the marker");
        // A comment keeps the connection alive.
        if event.iter().any(|line| line.starts_with("data: ")) {
            let event = parse_event(&event);
            if event.0 == marker {
                return events;
            }
            events.extend(Some(event).filter(|event| event.1 != MARKER));
        }
    }
}

/// Starts a proxy before the stack at this URL. It passes every request on. The answers to requests that begin with `request` are replaced by
/// empty ones with this status, after the first `spared` ones. Returns the URL of the proxy.
pub(crate) fn replaces_answers(url: &str, request: &'static str, spared: usize, status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = listener.local_addr().expect("an address").to_string();
    let (own, stack) = (proxy.clone(), url.trim_start_matches("http://").trim_end_matches('/').to_owned());
    std::thread::spawn(move || {
        let mut met = 0;
        // The requests of the audit record come here too.
        loop {
            let (mut client, _) = listener.accept().expect("a connection");
            let (head, body) = read_request(&mut client);
            let head = head.replace(&own, &stack).replacen("\r\n", "\r\nconnection: close\r\n", 1);
            let mut upstream = TcpStream::connect(&stack).expect("the stack listens");
            upstream.write_all(&[head.as_bytes(), &body].concat()).expect("the request is sent");
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).expect("the stack answers");
            let is_met = head.starts_with(request);
            met += usize::from(is_met);
            if is_met && met > spared {
                let empty = format!("HTTP/1.1 {status} Replaced\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                answer = empty.into_bytes();
            }
            client.write_all(&answer).expect("the answer is sent");
        }
    });
    format!("http://{proxy}")
}

/// Reads the head and the body of one request.
pub(crate) fn read_request(client: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let count = client.read(&mut buffer).expect("a request");
        bytes.extend(buffer.iter().take(count));
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = text(&bytes[..end + 4]);
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return (head, bytes.split_off(end + 4));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn parse_event(lines: &[String]) -> (String, String, Value) {
    let field = |name: &str| {
        let value = lines.iter().find_map(|line| line.strip_prefix(name));
        value.expect("every event has id, event and data").to_owned()
    };
    (field("id: "), field("event: "), serde_json::from_str(&field("data: ")).expect("JSON"))
}

pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(Some(WAIT)).build().into()
}
