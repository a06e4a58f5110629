//! Model of Secrets Manager: secrets with a current and a previous version, in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::json;

use crate::response::ServiceResponse;
use crate::sync::lock;

#[derive(Debug, Default)]
pub struct SecretsManager(Mutex<BTreeMap<String, Secret>>);

#[derive(Debug)]
struct Secret {
    current: String,
    previous: Option<String>,
    /// Number of versions so far.
    versions: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetSecretValue {
    secret_id: String,
    version_stage: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutSecretValue {
    secret_id: String,
    secret_string: String,
}

impl SecretsManager {
    /// Stores a new version of a secret, and creates the secret if there is none.
    pub fn put(&self, id: &str, text: &str) {
        let mut secrets = lock(&self.0);
        match secrets.get_mut(id) {
            Some(secret) => {
                secret.previous = Some(std::mem::replace(&mut secret.current, text.to_owned()));
                secret.versions += 1;
            }
            None => {
                secrets.insert(id.to_owned(), Secret { current: text.to_owned(), previous: None, versions: 1 });
            }
        }
    }

    /// Deletes a secret.
    pub fn delete(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    pub(crate) fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        let answer = match operation {
            "GetSecretValue" => serde_json::from_slice(body).map(|request| self.get_secret_value(&request)),
            "PutSecretValue" => serde_json::from_slice(body).map(|request| self.put_secret_value(&request)),
            _ => return ServiceResponse::unknown_operation(operation),
        };
        answer.unwrap_or_else(|error| ServiceResponse::error(400, "InvalidRequestException", &error.to_string()))
    }

    fn get_secret_value(&self, request: &GetSecretValue) -> ServiceResponse {
        let secrets = lock(&self.0);
        let Some(secret) = secrets.get(&request.secret_id) else { return not_found("secret") };
        let stage = request.version_stage.as_deref().unwrap_or("AWSCURRENT");
        let found = match stage {
            "AWSCURRENT" => Some((&secret.current, secret.versions)),
            "AWSPREVIOUS" => secret.previous.as_ref().map(|text| (text, secret.versions - 1)),
            _ => None,
        };
        let Some((text, version)) = found else { return not_found("version") };
        ServiceResponse::ok(&json!({
            "ARN": request.secret_id,
            "Name": request.secret_id,
            "SecretString": text,
            "VersionId": version_id(version),
            "VersionStages": [stage],
        }))
    }

    fn put_secret_value(&self, request: &PutSecretValue) -> ServiceResponse {
        let Some(versions) = lock(&self.0).get(&request.secret_id).map(|secret| secret.versions) else {
            return not_found("secret");
        };
        self.put(&request.secret_id, &request.secret_string);
        ServiceResponse::ok(&json!({
            "ARN": request.secret_id,
            "Name": request.secret_id,
            "VersionId": version_id(versions + 1),
            "VersionStages": ["AWSCURRENT"],
        }))
    }
}

fn version_id(number: u64) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

fn not_found(what: &str) -> ServiceResponse {
    ServiceResponse::error(
        400,
        "ResourceNotFoundException",
        &format!("Secrets Manager can't find the specified {what}."),
    )
}
