//! Requests over real connections, and how a dial in doubt is repeated.

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);

fn number() -> PhoneNumber {
    PhoneNumber::new("+15550199")
}

fn request() -> ApiRequest {
    ApiRequest {
        method: http::Method::GET,
        base_url: None,
        path: "/v2/x".to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        token_login: None,
    }
}

#[tokio::test]
async fn refused_connection_is_known_not_to_have_sent_anything() {
    // A port that was free a moment ago, so that nothing listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}")));
    let answer = api.send(Provider::Retell, request(), NOW).await;
    assert_eq!(answer, Err(SendError::NotSent("never connected")));
}

#[tokio::test]
async fn connection_that_breaks_leaves_it_in_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &format!("http://127.0.0.1:{port}/")));
    let (answer, ()) = tokio::join!(api.send(Provider::Retell, request(), NOW), async {
        drop(listener.accept().await.unwrap());
        drop(listener);
    });
    assert!(matches!(answer, Err(SendError::NoResponse(_))), "{answer:?}");
}

/// Requests that a server has read, each with its head and its body.
pub(crate) type Requests = std::sync::Arc<std::sync::Mutex<Vec<Vec<u8>>>>;

/// Server whose connections each carry one request: it closes a connection `idle` after its response, and sends the
/// next of `responses` to each request. Returns its address and the requests that it read.
pub(crate) async fn serve(idle: Duration, responses: &'static [&'static str]) -> (String, Requests) {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    let read = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let read = read.clone();
            tokio::spawn(async move {
                let Some(request) = read_request(&mut stream).await else { return };
                let number = {
                    let mut read = read.lock().unwrap();
                    read.push(request);
                    read.len() - 1
                };
                let response = responses.get(number).or(responses.last()).unwrap();
                stream.write_all(response.as_bytes()).await.unwrap();
                // A client that sends the next request on this connection gets no answer: the bytes arrive, and the
                // connection is closed.
                tokio::time::sleep(idle).await;
            });
        }
    });
    (address, requests)
}

/// Reads one request to its end. `None` if the client closes the connection before.
async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<Vec<u8>> {
    use tokio::io::AsyncReadExt;
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(request);
        }
    }
}

const ACCEPTED: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n{\"sid\":\"c1\",\"call_id\":\"c1\"}";
const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 402 Payment Required\r\ncontent-length: 0\r\n\r\n";
const LOST: &str = "";

/// Clock that moves forwards by this time whenever it is read.
fn clock(step_ms: u64) -> Clock {
    #[derive(Debug)]
    struct Steps(std::sync::atomic::AtomicU64, u64);
    impl aws_smithy_async::time::TimeSource for Steps {
        fn now(&self) -> std::time::SystemTime {
            let ms = self.0.fetch_add(self.1, std::sync::atomic::Ordering::Relaxed);
            std::time::UNIX_EPOCH + Duration::from_millis(ms)
        }
    }
    let start_ms = u64::try_from(NOW.as_millis()).unwrap().into();
    Clock::from_config(&crate::sdk::SdkConfig::builder().time_source(Steps(start_ms, step_ms)).build())
}

fn dial() -> ApiRequest {
    ApiRequest {
        method: http::Method::POST,
        base_url: None,
        path: "/".to_owned(),
        headers: Vec::new(),
        body: b"{}".to_vec(),
        token_login: None,
    }
}

#[tokio::test]
async fn idle_connection_that_the_provider_closes_leaves_no_dial_in_doubt() {
    // Twilio has no idempotency key. The server still has the first connection open when the second dial is sent, and
    // closes it without an answer.
    let (address, requests) = serve(Duration::from_millis(200), &[ACCEPTED]).await;
    let api = ProviderApi::new(ApiUrls::default().with(Provider::Twilio, &address));
    for _ in 0..3 {
        let answer = api.dial(Provider::Twilio, &number(), dial(), &clock(0)).await;
        assert_eq!(answer, Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() }));
    }
    assert_eq!(requests.lock().unwrap().len(), 3);
}

/// The provider has acted on a request whose answer begins, so the phone may ring.
#[tokio::test]
async fn answer_that_breaks_off_or_never_ends_leaves_the_dial_in_doubt() {
    const HEAD: &str = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n";
    let broken = format!("{HEAD}content-length: 27\r\n\r\n{{\"sid\":");
    let endless =
        format!("{HEAD}content-length: {}\r\n\r\n{}", RESPONSE_BYTES_MAX * 2, " ".repeat(RESPONSE_BYTES_MAX + 1));
    for (response, cause) in [(broken, "connection lost"), (endless, "response too large")] {
        let responses: &[&str] = Box::leak(Box::new([&*response.leak()]));
        let (address, requests) = serve(Duration::ZERO, responses).await;
        // Twilio has no idempotency key, so this is the only request.
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Twilio, &address));
        let answer = api.dial(Provider::Twilio, &number(), dial(), &clock(0)).await;
        assert_eq!(answer, Err(SendError::NoResponse(cause)));
        assert_eq!(requests.lock().unwrap().len(), 1, "{cause}");
    }
}

#[tokio::test]
async fn dial_in_doubt_is_repeated_once_where_that_is_safe() {
    let accepted = || Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() });
    for (responses, expected) in [
        (&[ERROR, ACCEPTED][..], accepted()),
        (&[LOST, ACCEPTED][..], accepted()),
        (&[ERROR, ERROR, ACCEPTED][..], Ok(DialAnswer::InDoubt)),
        // A refusal of the second request says nothing about the first.
        (&[ERROR, REFUSED][..], Ok(DialAnswer::InDoubt)),
        (&[REFUSED, ACCEPTED][..], Ok(DialAnswer::AccountProblem { reason: "payment_required" })),
    ] {
        let (address, requests) = serve(Duration::ZERO, responses).await;
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &address));
        assert_eq!(api.dial(Provider::Retell, &number(), dial(), &clock(0)).await, expected, "{responses:?}");
        assert!(requests.lock().unwrap().len() <= 2);
    }
    // Vapi would place a second call.
    let (address, requests) = serve(Duration::ZERO, &[ERROR, ACCEPTED]).await;
    let api = ProviderApi::new(ApiUrls::default().with(Provider::Vapi, &address));
    assert_eq!(api.dial(Provider::Vapi, &number(), dial(), &clock(0)).await, Ok(DialAnswer::InDoubt));
    assert_eq!(requests.lock().unwrap().len(), 1);
}

/// In the meantime, the call may have been dialled again.
#[tokio::test]
async fn dial_in_doubt_is_not_repeated_after_its_time() {
    for (step_ms, sent) in [(13_500, 2), (13_501, 1)] {
        let (address, requests) = serve(Duration::ZERO, &[ERROR]).await;
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Retell, &address));
        let answer = api.dial(Provider::Retell, &number(), dial(), &clock(step_ms)).await;
        assert_eq!((answer, requests.lock().unwrap().len()), (Ok(DialAnswer::InDoubt), sent));
    }
}

/// The token is made when the request is sent, so it contains that time.
#[tokio::test]
async fn login_by_token_becomes_a_header() {
    const FOUND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let pem = include_str!("../../../providers/fixtures/vonage/private_key.pem").replace('\n', "\\n");
    let accounts = format!(
        r#"{{"vonage": {{"keys": ["a key of the tests, as long as it must be"], "dial": {{
            "application_id": "a", "private_key": "{pem}", "answer_url": "https://app.example.com"}}}}}}"#
    );
    let file = switchhook_providers::ProvidersFile::from_json(&accounts).unwrap();
    let config = file.dial_accounts().config(Provider::Vonage).unwrap();
    let (call_id, attempt) = (switchhook_domain::CallId::new("c"), switchhook_domain::AttemptKey::new("1"));
    let lookup = switchhook_providers::Lookup {
        call_id: &call_id,
        attempt: &attempt,
        provider_call_id: Some("v1"),
        dialled_at: None,
        from: None,
        to: None,
    };
    let search = switchhook_providers::CallSearch::start(Provider::Vonage, config, lookup).unwrap();
    let (address, requests) = serve(Duration::ZERO, &[FOUND]).await;
    for now in [NOW, Timestamp::from_millis(NOW.as_millis() + 60_000)] {
        let api = ProviderApi::new(ApiUrls::default().with(Provider::Vonage, &address));
        api.send(Provider::Vonage, search.request().clone(), now).await.unwrap();
    }
    let requests = requests.lock().unwrap();
    let tokens: Vec<String> = requests
        .iter()
        .map(|request| {
            let request = String::from_utf8_lossy(request);
            let mut lines = request.lines();
            lines.find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap().to_owned()
        })
        .collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1]);
}

/// Each provider with an idempotency key gets the same bytes again, so the key is the same.
#[tokio::test]
async fn repeated_dial_is_the_same_request() {
    const TAKEN: &str =
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"call_id\":\"c1\",\"data\":{\"call_control_id\":\"c1\"}}  ";
    let accounts = r#"{
        "retell": {"keys": ["a key of the tests, as long as it must be"], "dial": {"api_key": "an API key of the tests"}},
        "telnyx": {"keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
            "dial": {"api_key": "an API key of the tests", "connection_id": "7"}}
    }"#;
    let file = switchhook_providers::ProvidersFile::from_json(accounts).unwrap();
    let accounts = file.dial_accounts();
    let (call_id, attempt) = (switchhook_domain::CallId::new("c"), switchhook_domain::AttemptKey::new("1"));
    let from = switchhook_domain::PhoneNumber::new("+15550100");
    let request = switchhook_providers::DialRequest {
        call_id: &call_id,
        attempt: &attempt,
        is_last_attempt: false,
        from: &from,
        to: &number(),
        appointment_id: None,
        metadata: &std::collections::BTreeMap::new(),
        dial_key: "the-key-of-this-dial",
    };
    for (provider, name) in [(Provider::Retell, "idempotency_key"), (Provider::Telnyx, "command_id")] {
        let config = accounts.config(provider).unwrap();
        let request = switchhook_providers::dial_api_request(provider, config, &request).unwrap();
        for responses in [&[ERROR, TAKEN][..], &[LOST, TAKEN]] {
            let (address, requests) = serve(Duration::ZERO, responses).await;
            let api = ProviderApi::new(ApiUrls::default().with(provider, &address));
            let answer = api.dial(provider, &number(), request.clone(), &clock(0)).await;
            assert_eq!(answer, Ok(DialAnswer::Accepted { provider_call_id: "c1".to_owned() }), "{provider}");
            let requests = requests.lock().unwrap();
            assert_eq!((requests.len(), &requests[0]), (2, &requests[1]), "{provider}");
            let key = format!("\"{name}\":\"the-key-of-this-dial\"");
            assert!(String::from_utf8_lossy(&requests[0]).contains(&key), "{provider}");
        }
    }
}

#[test]
fn request_goes_to_the_url_of_its_provider_or_of_its_account() {
    let of_account = ApiRequest { base_url: Some("https://name.example.com".to_owned()), ..request() };
    assert_eq!(ApiUrls::default().of(Provider::Generic, &of_account), None);
    assert_eq!(ApiUrls::default().of(Provider::Retell, &request()), Some("https://api.retellai.com"));
    // Each account of LiveKit has a URL of its own.
    assert_eq!(ApiUrls::default().of(Provider::LiveKit, &of_account), Some("https://name.example.com"));
    assert_eq!(ApiUrls::default().of(Provider::LiveKit, &request()), None);
    for provider in [Provider::Retell, Provider::LiveKit] {
        let replaced = ApiUrls::default().with(provider, "http://127.0.0.1:1/");
        assert_eq!(replaced.of(provider, &of_account), Some("http://127.0.0.1:1"));
    }
}
