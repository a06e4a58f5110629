//! A stack that looks deployed: AWS as far as the tool asks it, in front of a `switchhook dev`.
//!
//! Requests to the tables, the queues and the API go on to the local stack. Everything else has a canned answer, which says that
//! all is well. A test replaces single answers.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

use crate::stack::{KEY, PROGRAM, Stack, agent, domain_events, without_choice};

/// Name of the stack.
pub(crate) const NAME: &str = "switchhook";
const CHECK_QUEUE: &str = "switchhook-check-";
const JSON: &str = "application/x-amz-json-1.0";

/// Answer to an operation: status and body.
type Answer = (u16, String);

/// A fake AWS endpoint, which serves until the test process ends.
pub(crate) struct FakeAws {
    url: String,
    state: Arc<Fake>,
}

struct Fake {
    /// URL of the local stack.
    dev: String,
    answers: BTreeMap<String, Answer>,
    /// Operations that changed something, in their order.
    changes: Mutex<Vec<String>>,
    trials: Mutex<Vec<Value>>,
}

impl FakeAws {
    /// Starts an endpoint in which all is well but for these answers, each by the name of its operation.
    pub(crate) fn start(dev: &Stack, answers: &[(&str, u16, String)]) -> Self {
        let names = dev.get("/stack").expect("the names of the stack");
        let mut all = healthy(&names);
        all.extend(answers.iter().map(|(name, status, body)| ((*name).to_owned(), (*status, body.clone()))));
        let (changes, trials) = (Mutex::default(), Mutex::default());
        let state = Arc::new(Fake { dev: dev.url.clone(), answers: all, changes, trials });
        let app = Router::new().fallback(answer).with_state(state.clone());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                sender.send(listener.local_addr().expect("an address")).expect("the test waits");
                axum::serve(listener, app).await.expect("it serves");
            });
        });
        Self { url: format!("http://{}", receiver.recv().expect("it listens")), state }
    }

    /// Runs a command on the stack. Variables without a value are removed.
    pub(crate) fn run(&self, arguments: &[&str], variables: &[(&str, Option<&str>)]) -> Output {
        self.command(arguments, variables).output().expect("the binary starts")
    }

    /// Returns a command on the stack.
    pub(crate) fn command(&self, arguments: &[&str], variables: &[(&str, Option<&str>)]) -> Command {
        let mut command = Command::new(PROGRAM);
        without_choice(command.args(arguments).args(["--stack", NAME]));
        for variable in ["AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"] {
            command.env_remove(variable);
        }
        command.env("AWS_ENDPOINT_URL", &self.url).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Returns the operations that changed something outside of the local stack.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.state.changes.lock().expect("no panic").clone()
    }
}

/// Returns the XML of a list, each member with these elements.
pub(crate) fn xml_list(list: &str, members: &[Vec<(&str, &str)>]) -> String {
    let element = |(name, value): &(&str, &str)| format!("<{name}>{value}</{name}>");
    let members: String = members
        .iter()
        .map(|member| format!("<member>{}</member>", member.iter().map(element).collect::<String>()))
        .collect();
    format!("<{list}>{members}</{list}>")
}

/// Returns the answer that describes a stack with this status.
pub(crate) fn described(status: &str, names: Option<&Value>, parameters: &[(&str, &str)]) -> String {
    let text = |name: &str| names.and_then(|names| Some(names.get(name)?.as_str()?.to_owned())).unwrap_or_default();
    let outputs = [
        ("ApiUrl", "https://abc.execute-api.us-east-1.amazonaws.com".to_owned()),
        ("InboxTableName", text("inbox_table")),
        ("CallsTableName", text("calls_table")),
        ("EventsQueueUrl", text("events_queue_url")),
        ("EventsDlqUrl", text("events_dlq_url")),
        ("DialQueueUrl", text("dial_queue_url")),
        ("DueQueueUrl", text("due_queue_url")),
        ("RelayFailuresQueueUrl", text("relay_failures_queue_url")),
        ("EventBusName", text("event_bus")),
        ("SchedulerFunctionName", "scheduler".to_owned()),
        ("ReconcilerFunctionName", "reconciler".to_owned()),
        ("WebhookKeysSecretArn", "webhook-keys".to_owned()),
        ("DialAccountsSecretArn", "dial-accounts".to_owned()),
    ];
    let outputs: Vec<Vec<(&str, &str)>> = match names {
        Some(_) => outputs.iter().map(|(name, value)| vec![("OutputKey", *name), ("OutputValue", value)]).collect(),
        None => Vec::new(),
    };
    let mut all = BTreeMap::from([
        ("InactivityTimeoutSeconds", "900"),
        ("OutcomeProviders", "retell,vapi,generic"),
        ("InboxRetentionDays", "30"),
        ("CallRetentionDays", "400"),
        ("BlockOnRequest", "true"),
        ("DialRates", "retell=1"),
        ("IndexNumbers", "true"),
        ("IndexShards", "4"),
        ("ConsumerMaxConcurrency", "50"),
        ("DialerMaxConcurrency", "20"),
        ("AlarmTopicArn", "arn:aws:sns:us-east-1:123456789012:alarms"),
    ]);
    all.extend(parameters.iter().copied());
    let parameters: Vec<Vec<(&str, &str)>> =
        all.iter().map(|(name, value)| vec![("ParameterKey", *name), ("ParameterValue", *value)]).collect();
    format!(
        "<DescribeStacksResponse><Stacks><member><StackName>{NAME}</StackName><StackStatus>{status}</StackStatus>{}{}</member>\
         </Stacks></DescribeStacksResponse>",
        xml_list("Outputs", &outputs),
        xml_list("Parameters", &parameters)
    )
}

/// Answers of a stack in which all is well, by the names of their operations.
fn healthy(names: &Value) -> BTreeMap<String, Answer> {
    let resource = |logical, physical, kind| {
        vec![("LogicalResourceId", logical), ("PhysicalResourceId", physical), ("ResourceType", kind)]
    };
    let resources = xml_list(
        "StackResourceSummaries",
        &[
            resource("IngressFunction", "switchhook-ingress-1", "AWS::Lambda::Function"),
            resource("ConsumerFunction", "switchhook-consumer-1", "AWS::Lambda::Function"),
            resource("ConsumerMapping", "5b0e", "AWS::Lambda::EventSourceMapping"),
            resource("SchedulerSchedule", "switchhook-schedule-1", "AWS::Scheduler::Schedule"),
            resource("AttentionRule", "switchhook|switchhook-attention-1", "AWS::Events::Rule"),
        ],
    );
    let subscriptions =
        xml_list("Subscriptions", &[vec![("SubscriptionArn", "arn:aws:sns:us-east-1:123456789012:alarms:1")]]);
    let policy = json!({"Statement": [
        {"Effect": "Allow", "Principal": {"Service": ["cloudwatch.amazonaws.com", "events.amazonaws.com"]}},
    ]});
    let secret =
        json!({"SecretString": json!({"generic": {"keys": [KEY]}}).to_string(), "CreatedDate": 1_760_961_600.5});
    let answers = [
        ("GetCallerIdentity", "<Arn>arn:aws:iam::123456789012:user/anna</Arn>".to_owned()),
        ("DescribeStacks", described("CREATE_COMPLETE", Some(names), &[])),
        ("ListStackResources", format!("<ListStackResourcesResponse>{resources}</ListStackResourcesResponse>")),
        ("GetFunction", json!({"Configuration": {"State": "Active", "LastUpdateStatus": "Successful"}}).to_string()),
        ("GetAccountSettings", account(1_000)),
        ("GetEventSourceMapping", json!({"State": "Enabled", "LastProcessingResult": "OK"}).to_string()),
        ("GetSchedule", json!({"State": "ENABLED"}).to_string()),
        (
            "DescribeAlarms",
            json!({"MetricAlarms": [{"AlarmName": "switchhook-P1-dead-letters", "StateValue": "OK"}]}).to_string(),
        ),
        ("ListSubscriptionsByTopic", format!("<R>{subscriptions}</R>")),
        (
            "GetTopicAttributes",
            format!("<R><Attributes><entry><key>Policy</key><value>{policy}</value></entry></Attributes></R>"),
        ),
        ("ListRules", json!({"Rules": [{"Name": "subscriber", "State": "ENABLED"}]}).to_string()),
        ("GetSecretValue", secret.to_string()),
        ("CreateQueue", json!({"QueueUrl": format!("http://sqs/{CHECK_QUEUE}1")}).to_string()),
        ("GetQueueUrl", json!({"QueueUrl": format!("http://sqs/{CHECK_QUEUE}1")}).to_string()),
        ("SetQueueAttributes", String::new()),
        ("DeleteQueue", String::new()),
        ("PutRule", json!({"RuleArn": "arn:aws:events:us-east-1:123456789012:rule/switchhook/r"}).to_string()),
        ("PutTargets", json!({"FailedEntryCount": 0}).to_string()),
        ("RemoveTargets", json!({"FailedEntryCount": 0}).to_string()),
        ("DeleteRule", String::new()),
    ];
    answers.into_iter().map(|(name, body)| (name.to_owned(), (200, body))).collect()
}

/// Returns the settings of an account that may run so many functions at once.
pub(crate) fn account(functions: u64) -> String {
    let limit = json!({"ConcurrentExecutions": functions, "UnreservedConcurrentExecutions": functions});
    json!({"AccountLimit": limit}).to_string()
}

async fn answer(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body").to_vec();
    let path = parts.uri.path_and_query().expect("a path").as_str().to_owned();
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "host" | "content-length" | "authorization"))
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    let answer = move || fake.answer(parts.method.as_str(), &path, &headers, &body);
    let (status, body) = tokio::task::spawn_blocking(answer).await.expect("an answer");
    let mut response = Response::builder().status(status).header("content-type", JSON);
    if body.contains("errorMessage") {
        // Lambda answers 200 to an invocation that failed.
        response = response.header("x-amz-function-error", "Unhandled");
    }
    response.body(Body::from(body)).expect("a response")
}

impl Fake {
    fn answer(&self, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(body);
        let target = headers.iter().find(|(name, _)| name == "x-amz-target").map(|(_, target)| target.as_str());
        let operation = operation(target, path, &text);
        let is_change = ["Create", "Put", "Set", "Remove", "Delete"].iter().any(|verb| operation.starts_with(verb));
        if is_change && !operation.ends_with("Item") {
            self.changes.lock().expect("no panic").push(operation.clone());
        }
        let of_local_queue = operation.ends_with("QueueAttributes") && !text.contains(CHECK_QUEUE);
        match self.answers.get(&operation) {
            Some(answer) if !of_local_queue => return answer.clone(),
            Some(_) | None => {}
        }
        let ok = |body: Value| (200, body.to_string());
        match operation.as_str() {
            "GetQueueAttributes" if text.contains(CHECK_QUEUE) => {
                ok(json!({"Attributes": {"QueueArn": "arn:aws:sqs:q"}}))
            }
            "PutEvents" if text.contains("switchhook.check") => {
                let request: Value = serde_json::from_slice(body).expect("JSON");
                let entry = &request["Entries"][0];
                let detail: Value = serde_json::from_str(entry["Detail"].as_str().expect("a text")).expect("JSON");
                let event = json!({"source": entry["Source"], "detail-type": entry["DetailType"], "detail": detail});
                self.trials.lock().expect("no panic").push(event);
                ok(json!({"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}))
            }
            "ReceiveMessage" => {
                let mut events = self.trials.lock().expect("no panic").clone();
                events.extend(
                    domain_events(&self.dev, None).into_iter().map(
                        |(_, kind, detail)| json!({"source": "switchhook", "detail-type": kind, "detail": detail}),
                    ),
                );
                let messages: Vec<Value> = events.iter().map(|event| json!({"Body": event.to_string()})).collect();
                ok(json!({"Messages": messages}))
            }
            _ => self.pass_on(method, path, headers, body),
        }
    }

    /// Sends a request to the local stack.
    fn pass_on(&self, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> Answer {
        let path = path.strip_prefix("/_aws/execute-api/abc/$default").unwrap_or("/aws");
        let mut request = http::Request::builder().method(method).uri(format!("{}{path}", self.dev));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = agent().run(request.body(body.to_vec()).expect("a request")).expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.into_body().read_to_string().expect("text"))
    }
}

/// Returns the name of an operation. One of DynamoDB is followed by the table, and one of the API by its path.
fn operation(target: Option<&str>, path: &str, body: &str) -> String {
    if let Some(target) = target {
        let operation = target.rsplit('.').next().unwrap_or_default();
        let table = if body.contains("switchhook-calls") { "calls" } else { "inbox" };
        return if target.starts_with("DynamoDB") { format!("{table} {operation}") } else { operation.to_owned() };
    }
    let form = form_urlencoded::parse(body.as_bytes()).find(|(name, _)| name == "Action");
    let of_path = || match path {
        path if path.ends_with("/invocations") => "Invoke".to_owned(),
        path if path.contains("/functions/") => "GetFunction".to_owned(),
        path if path.contains("/event-source-mappings/") => "GetEventSourceMapping".to_owned(),
        path if path.contains("/account-settings") => "GetAccountSettings".to_owned(),
        path if path.contains("/schedules/") => "GetSchedule".to_owned(),
        path => path.split('?').next().unwrap_or_default().replace("/_aws/execute-api/abc/$default", ""),
    };
    form.map_or_else(of_path, |(_, action)| action.into_owned())
}
