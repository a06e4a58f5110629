//! Signing of requests to the API of a deployed stack, and to AWS services without an SDK client, with the operator's AWS
//! credentials (Signature Version 4).

use std::time::SystemTime;

use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningError, SigningParams, SigningSettings};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use http::Request;

use crate::sdk::{self, Patience, SdkConfig};

/// Service name of an HTTP API in a signature.
const HTTP_API: &str = "execute-api";

/// Reason why a request could not be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error(
        "no AWS credentials: requests to {host} must be signed; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    )]
    NoCredentials {
        host: String,
        #[source]
        source: Option<CredentialsError>,
    },
    #[error("no AWS region: the host {0} does not name one; set AWS_REGION")]
    NoRegion(String),
    #[error("the request could not be signed")]
    Sign(#[source] SigningError),
    #[error("the request could not be signed")]
    Parameters(#[source] v4::signing_params::BuildError),
    #[error("could not start the runtime that fetches the AWS credentials")]
    Runtime(#[source] std::io::Error),
}

/// Signs a request to the API of a stack with the credentials that the AWS tools would use. `region` is the region of the stack, if it is
/// known: the host does not name it if the API has a domain name of its own. Blocks while it fetches them, so it must not be
/// called inside of an async runtime.
///
/// # Errors
/// See [`SignError`].
pub fn sign(request: &mut Request<Vec<u8>>, region: Option<&str>) -> Result<(), SignError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SignError::Runtime)?;
    let config = runtime.block_on(sdk::from_profile(region.map(str::to_owned), Patience::Short));
    let host = request.uri().host().unwrap_or_default().to_owned();
    let region = region_of_api(&host, &config).ok_or(SignError::NoRegion(host))?;
    runtime.block_on(sign_for(request, &config, HTTP_API, &region))
}

/// Returns the region of an API: the one that its host names, or else the one of the configuration.
fn region_of_api(host: &str, config: &SdkConfig) -> Option<String> {
    region_of(host).or_else(|| Some(config.region()?.as_ref())).map(str::to_owned)
}

/// Signs a request to a service with the credentials of a configuration. `service` is its name in a signature, for example
/// `monitoring`.
///
/// # Errors
/// See [`SignError`].
pub async fn sign_for(
    request: &mut Request<Vec<u8>>,
    config: &SdkConfig,
    service: &str,
    region: &str,
) -> Result<(), SignError> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let missing = |source| SignError::NoCredentials { host: host.clone(), source };
    let provider = config.credentials_provider().ok_or_else(|| missing(None))?;
    let credentials = provider.provide_credentials().await.map_err(|source| missing(Some(source)))?;
    sign_with(request, &credentials.into(), service, region, SystemTime::now())
}

fn sign_with(
    request: &mut Request<Vec<u8>>,
    identity: &Identity,
    service: &str,
    region: &str,
    now: SystemTime,
) -> Result<(), SignError> {
    let parameters: SigningParams<'_> = v4::SigningParams::builder()
        .identity(identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(SignError::Parameters)?
        .into();
    let uri = request.uri().to_string();
    let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signable =
        SignableRequest::new(request.method().as_str(), uri.as_str(), headers, SignableBody::Bytes(request.body()))
            .map_err(SignError::Sign)?;
    let (instructions, _) = aws_sigv4::http_request::sign(signable, &parameters).map_err(SignError::Sign)?.into_parts();
    instructions.apply_to_request_http1x(request);
    Ok(())
}

/// Returns the region in the host name of an HTTP API. `None` for a custom domain name.
fn region_of(host: &str) -> Option<&str> {
    let (_, rest) = host.split_once(".execute-api.")?;
    rest.split_once(".amazonaws.com").map(|(region, _)| region)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use aws_credential_types::Credentials;

    use super::*;

    #[test]
    fn region_is_in_the_name_of_the_host() {
        assert_eq!(region_of("abc.execute-api.eu-west-1.amazonaws.com"), Some("eu-west-1"));
        assert_eq!(region_of("calls.example.com"), None);
    }

    #[tokio::test]
    async fn api_with_a_domain_name_is_in_the_region_of_its_stack() {
        let config = sdk::from_profile(Some("eu-north-1".to_owned()), Patience::Short).await;
        assert_eq!(region_of_api("calls.example.com", &config).as_deref(), Some("eu-north-1"));
        let own = "abc.execute-api.eu-west-1.amazonaws.com";
        assert_eq!(region_of_api(own, &config).as_deref(), Some("eu-west-1"));
    }

    #[test]
    fn signature_names_the_service_and_covers_the_body() {
        let identity: Identity =
            Credentials::new("AKIDEXAMPLE", "a secret", Some("a session".to_owned()), None, "test").into();
        let now = UNIX_EPOCH + Duration::from_secs(1_760_961_600);
        let signed = |body: &[u8]| {
            let mut request =
                Request::post("https://abc.execute-api.eu-west-1.amazonaws.com/calls").body(body.to_vec()).unwrap();
            sign_with(&mut request, &identity, "execute-api", "eu-west-1", now).unwrap();
            let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header("x-amz-security-token"), "a session");
            header("authorization")
        };
        let one = signed(b"{}");
        assert!(
            one.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20251020/eu-west-1/execute-api/aws4_request"),
            "{one}"
        );
        assert_eq!(one, signed(b"{}"));
        assert_ne!(one, signed(b"{ }"));
    }
}
