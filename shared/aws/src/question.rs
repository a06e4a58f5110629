//! Answers to providers that ask what to do with an inbound call.

use std::sync::OnceLock;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::QuestionConfig;

use crate::provider::{exchange, http_request};
use crate::sdk::TLS_PROVIDER;

/// Time in which the configured URL must have answered, with the connection. The caller hears nothing until then.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which an idle connection is not used again. Servers close idle connections: gunicorn after 2 seconds, Node.js after 5. A
/// frozen function does not see it, and a question that is sent on a closed connection gets no answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Client that asks the configured URL.
#[derive(Clone, Debug, Default)]
pub struct AnswerClient {
    /// Made with the first question, because few stacks ask a URL.
    connector: OnceLock<SharedHttpConnector>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAnswer {
    pub content_type: &'static str,
    pub body: String,
    /// Reason why it is the fixed answer although a URL is configured. The text names no URL and no part of a body.
    pub fallback: Option<&'static str>,
}

impl AnswerClient {
    /// Client that sends its requests through a connector.
    #[must_use]
    pub fn with_connector(connector: SharedHttpConnector) -> Self {
        Self { connector: OnceLock::from(connector) }
    }

    /// Asks the configured URL, and returns its answer. If none comes in time, it returns the fixed answer. **There is always an
    /// answer, after [`ANSWER_TIMEOUT`] at the latest.**
    pub async fn answer(
        &self,
        config: &QuestionConfig,
        provider: Provider,
        (content_type, question): (&str, &[u8]),
        now: Timestamp,
    ) -> GivenAnswer {
        let given = |body, fallback| GivenAnswer { content_type: config.content_type(), body, fallback };
        let Some((url, request)) = config.request(provider, content_type, question, now) else {
            return given(config.fixed().to_owned(), None);
        };
        let connector = self.connector.get_or_init(new_connector);
        let asked = async {
            let request = http_request(url, request).map_err(|_| "the request is malformed")?;
            let response = exchange(connector, request).await.map_err(|_| "no answer from the URL")?;
            config.answer(response.status, response.body).ok_or("no answer that the provider can read")
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
            Ok(Ok(body)) => given(body, None),
            Ok(Err(reason)) => given(config.fixed().to_owned(), Some(reason)),
            Err(_) => given(config.fixed().to_owned(), Some("no answer from the URL within a second")),
        }
    }
}

fn new_connector() -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder().connect_timeout(ANSWER_TIMEOUT).build();
    let builder = aws_smithy_http_client::Connector::builder().connector_settings(settings);
    let builder = builder.sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new()).pool_idle_timeout(IDLE_TIMEOUT);
    SharedHttpConnector::new(builder.tls_provider(TLS_PROVIDER).build())
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture};
    use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
    use serde_json::json;
    use switchhook_providers::{ProvidersFile, WebhookConfig};

    use super::*;
    use crate::provider::tests::serve;

    const NOW: Timestamp = Timestamp::from_millis(1_760_962_445_000);
    const KEY: &str = "a key of the tests, as long as it must be";
    const AN_HOUR: Duration = Duration::from_secs(60 * 60);
    const AGENT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"agent\":7}";

    fn config(provider: Provider, question: &serde_json::Value) -> WebhookConfig {
        let entry = json!({"keys": [KEY], "public_url": "https://hooks.example.com", "question": question});
        let file = ProvidersFile::from_json(&json!({provider.as_str(): entry}).to_string()).unwrap();
        file.webhook_keys().config(provider).unwrap().clone()
    }

    async fn ask(url: &str) -> GivenAnswer {
        ask_through(&AnswerClient::default(), url).await
    }

    async fn ask_through(client: &AnswerClient, url: &str) -> GivenAnswer {
        let question = json!({"answer": {"fixed": true}, "url": url, "key": KEY});
        let config = config(Provider::Retell, &question);
        client.answer(config.question().unwrap(), Provider::Retell, ("application/json", b"{\"a\":1}"), NOW).await
    }

    fn fixed(fallback: &'static str) -> GivenAnswer {
        let body = "{\"fixed\":true}".to_owned();
        GivenAnswer { content_type: "application/json", body, fallback: Some(fallback) }
    }

    #[tokio::test]
    async fn url_gets_the_signed_question_and_its_answer_is_given() {
        let (address, requests) = serve(Duration::ZERO, &[AGENT]).await;
        let given = ask(&format!("{address}/which")).await;
        assert_eq!((given.body.as_str(), given.fallback), ("{\"agent\":7}", None));
        let request = String::from_utf8(requests.lock().unwrap()[0].clone()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /which HTTP/1.1"), "{head}");
        assert_eq!(body, "{\"a\":1}");
        let signed = switchhook_providers::sign(
            Provider::Generic,
            &switchhook_providers::Key::new(KEY).unwrap(),
            "",
            b"{\"a\":1}",
            NOW,
        );
        for (name, value) in signed.headers {
            assert!(head.contains(&format!("{name}: {value}")), "{head}");
        }
        assert!(head.contains("x-switchhook-provider: retell") && head.contains("content-type: application/json"));
    }

    /// The server reads nothing more from a connection after its first answer. A server that closed the connection looks the same to a
    /// client that was frozen.
    #[tokio::test]
    async fn question_after_a_pause_goes_by_a_new_connection() {
        let (address, requests) = serve(AN_HOUR, &[AGENT]).await;
        let client = AnswerClient::default();
        assert_eq!(ask_through(&client, &address).await.fallback, None);
        tokio::time::sleep(IDLE_TIMEOUT + Duration::from_millis(100)).await;
        assert_eq!(ask_through(&client, &address).await.fallback, None);
        assert_eq!(requests.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn every_other_response_gives_the_fixed_answer() {
        for response in [
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 302 Found\r\nlocation: http://localhost/\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nno JSON yet",
        ] {
            let (address, _) = serve(Duration::ZERO, vec_of(response)).await;
            assert_eq!(ask(&address).await, fixed("no answer that the provider can read"), "{response}");
        }
        let (address, _) = serve(Duration::ZERO, &[""]).await;
        assert_eq!(ask(&address).await, fixed("no answer from the URL"));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(ask(&format!("http://127.0.0.1:{port}")).await, fixed("no answer from the URL"));
    }

    fn vec_of(response: &'static str) -> &'static [&'static str] {
        vec![response].leak()
    }

    /// Two limits: an answer has at most 64 KB, and any response at most 4 MB.
    #[tokio::test]
    async fn response_that_is_too_large_gives_the_fixed_answer() {
        for (bytes, reason) in
            [(64 * 1024, "no answer that the provider can read"), (4 * 1024 * 1024, "no answer from the URL")]
        {
            let body = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
            let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let (address, _) = serve(Duration::ZERO, vec_of(response.leak())).await;
            let given = ask(&address).await;
            // A busy machine may not read so much within a second.
            assert!([fixed(reason), fixed("no answer from the URL within a second")].contains(&given), "{bytes}");
        }
    }

    /// These servers hold the connection for an hour: one takes it and reads nothing, one sends no response, and one stops in the
    /// middle of the body.
    #[tokio::test]
    async fn server_that_stalls_costs_a_second() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut addresses = vec![format!("http://{}", listener.local_addr().unwrap())];
        for response in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"agent\""] {
            addresses.push(serve(AN_HOUR, vec_of(response)).await.0);
        }
        for address in addresses {
            let started = std::time::Instant::now();
            let given = tokio::time::timeout(Duration::from_secs(60), ask(&address)).await;
            assert_eq!(given, Ok(fixed("no answer from the URL within a second")));
            assert!(started.elapsed() >= ANSWER_TIMEOUT, "{:?}", started.elapsed());
        }
    }

    /// Connector that never responds.
    #[derive(Debug)]
    struct Silent;

    impl HttpConnector for Silent {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            HttpConnectorFuture::new(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_is_one_second() {
        let client = AnswerClient::with_connector(SharedHttpConnector::new(Silent));
        let started = tokio::time::Instant::now();
        let given = ask_through(&client, "https://answers.example.com").await;
        assert_eq!(given, fixed("no answer from the URL within a second"));
        // The timer of tokio counts whole milliseconds.
        let elapsed = started.elapsed();
        assert!((Duration::from_millis(1_000)..=Duration::from_millis(1_001)).contains(&elapsed), "{elapsed:?}");
    }
}
