//! Model of Secrets Manager: secrets with a current and a previous version.
//!
//! **Versions that a request stores survive in the data directory, and so do the secrets that a run asks to keep.** Other secrets that the
//! local cloud sets up itself are in memory only, until a request stores a version of one: then the file gets all of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::file::replace_file;
use crate::response::ServiceResponse;
use crate::sync::lock;

/// Name of the file in the data directory.
const FILE: &str = "secrets.json";
/// Largest value of a secret.
const SECRET_BYTES_MAX: usize = 65_536;
const CURRENT: &str = "AWSCURRENT";
const PREVIOUS: &str = "AWSPREVIOUS";

#[derive(Debug)]
pub struct SecretsManager {
    secrets: Mutex<Secrets>,
    /// `None` if the secrets are in memory only.
    file: Option<PathBuf>,
    is_restored: bool,
    clock: Clock,
}

/// Secrets by their names.
type Secrets = BTreeMap<String, Secret>;

/// Versions that have a stage. Secrets Manager may delete others at any time, so they are not kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    current: Version,
    previous: Option<Version>,
    /// Number of versions so far.
    versions: u64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    number: u64,
    text: String,
    stored_ms: u64,
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListSecretVersionIds {
    secret_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UpdateSecretVersionStage {
    secret_id: String,
    version_stage: String,
    move_to_version_id: Option<String>,
    remove_from_version_id: Option<String>,
}

impl SecretsManager {
    /// Reads the secrets that the data directory holds.
    pub(crate) fn open(data_dir: Option<&Path>, clock: Clock) -> Result<Self, LocalError> {
        let file = data_dir.map(|path| path.join(FILE));
        let restored = file.as_deref().map(read).transpose()?.flatten();
        let is_restored = restored.is_some();
        Ok(Self { secrets: Mutex::new(restored.unwrap_or_default()), file, is_restored, clock })
    }

    /// True if an earlier run left the secrets in the data directory.
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// Stores a new version of a secret in memory, and creates the secret if there is none.
    pub fn put(&self, id: &str, text: &str) {
        put(&mut lock(&self.secrets), id, text, self.clock.now_ms());
    }

    /// Writes all secrets into the data directory, if there is one. The file of a stack whose clock stands still stays as it is.
    pub(crate) fn keep(&self) -> Result<(), LocalError> {
        let secrets = lock(&self.secrets);
        match &self.file {
            Some(file) if !self.clock.is_stopped() => {
                write(file, &secrets).map_err(|source| LocalError::WriteSecrets { path: file.clone(), source })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the current text of a secret. `None` if there is no such secret.
    pub fn current(&self, id: &str) -> Option<String> {
        lock(&self.secrets).get(id).map(|secret| secret.current.text.clone())
    }

    /// Deletes a secret from memory.
    pub fn delete(&self, id: &str) {
        lock(&self.secrets).remove(id);
    }

    pub(crate) fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        let answer = match operation {
            "GetSecretValue" => serde_json::from_slice(body).map(|request| self.get_secret_value(&request)),
            "PutSecretValue" => serde_json::from_slice(body).map(|request| self.put_secret_value(&request)),
            "ListSecretVersionIds" => serde_json::from_slice(body).map(|request| self.list_version_ids(&request)),
            "UpdateSecretVersionStage" => serde_json::from_slice(body).map(|request| self.move_stage(&request)),
            _ => return ServiceResponse::unknown_operation(operation),
        };
        answer.unwrap_or_else(|error| ServiceResponse::error(400, "InvalidRequestException", &error.to_string()))
    }

    fn get_secret_value(&self, request: &GetSecretValue) -> ServiceResponse {
        let secrets = lock(&self.secrets);
        let Some(secret) = secrets.get(&request.secret_id) else { return not_found("secret") };
        let stage = request.version_stage.as_deref().unwrap_or(CURRENT);
        let Some((_, version)) = secret.staged().find(|(of, _)| *of == stage) else { return not_found("version") };
        ServiceResponse::ok(&json!({
            "ARN": request.secret_id,
            "Name": request.secret_id,
            "CreatedDate": seconds(version.stored_ms),
            "SecretString": version.text,
            "VersionId": version_id(version.number),
            "VersionStages": [stage],
        }))
    }

    fn put_secret_value(&self, request: &PutSecretValue) -> ServiceResponse {
        if request.secret_string.len() > SECRET_BYTES_MAX {
            let message = "1 validation error detected: Value at 'secretString' failed to satisfy constraint: Member must have length \
                           less than or equal to 65536";
            return ServiceResponse::error(400, "ValidationException", message);
        }
        let mut secrets = lock(&self.secrets);
        let mut next = secrets.clone();
        if !next.contains_key(&request.secret_id) {
            return not_found("secret");
        }
        let number = put(&mut next, &request.secret_id, &request.secret_string, self.clock.now_ms());
        self.commit(&mut secrets, next, || {
            json!({
                "ARN": request.secret_id,
                "Name": request.secret_id,
                "VersionId": version_id(number),
                "VersionStages": [CURRENT],
            })
        })
    }

    /// Lists the versions that have a stage. Their dates of use are left out, as for a secret that nobody has read.
    fn list_version_ids(&self, request: &ListSecretVersionIds) -> ServiceResponse {
        let secrets = lock(&self.secrets);
        let Some(secret) = secrets.get(&request.secret_id) else { return not_found("secret") };
        let versions = secret.staged().map(|(stage, version)| {
            json!({
                "VersionId": version_id(version.number),
                "VersionStages": [stage],
                "CreatedDate": seconds(version.stored_ms),
                "KmsKeyIds": ["DefaultEncryptionKey"],
            })
        });
        let versions: Vec<Value> = versions.collect();
        ServiceResponse::ok(&json!({"ARN": request.secret_id, "Name": request.secret_id, "Versions": versions}))
    }

    /// Makes the previous version the current one again. Secrets Manager then makes the current one the previous one.
    fn move_stage(&self, request: &UpdateSecretVersionStage) -> ServiceResponse {
        let mut secrets = lock(&self.secrets);
        let mut next = secrets.clone();
        let Some(secret) = next.get_mut(&request.secret_id) else { return not_found("secret") };
        if request.version_stage != CURRENT {
            return invalid("the local cloud moves no other stage than AWSCURRENT");
        }
        let current = version_id(secret.current.number);
        if request.remove_from_version_id.as_ref() != Some(&current) {
            return invalid(&format!(
                "The parameter RemoveFromVersionId can't be empty. Staging label AWSCURRENT is currently attached to version \
                 {current}, so you must explicitly reference that version in RemoveFromVersionId."
            ));
        }
        match &mut secret.previous {
            Some(previous) if Some(version_id(previous.number)) == request.move_to_version_id => {
                std::mem::swap(previous, &mut secret.current);
            }
            Some(_) | None => return not_found("version"),
        }
        self.commit(&mut secrets, next, || json!({"ARN": request.secret_id, "Name": request.secret_id}))
    }

    /// Writes the file, then replaces the secrets in memory. If the file cannot be written, nothing has changed.
    fn commit(&self, secrets: &mut Secrets, next: Secrets, answer: impl FnOnce() -> Value) -> ServiceResponse {
        if let Some(file) = &self.file
            && let Err(error) = write(file, &next)
        {
            let message = format!("could not write {}: {error}", file.display());
            return ServiceResponse::error(500, "InternalServiceError", &message);
        }
        *secrets = next;
        ServiceResponse::ok(&answer())
    }
}

impl Secret {
    /// Returns the versions with their stages.
    fn staged(&self) -> impl Iterator<Item = (&'static str, &Version)> {
        let previous = self.previous.as_ref().map(|version| (PREVIOUS, version));
        std::iter::once((CURRENT, &self.current)).chain(previous)
    }
}

/// Leaves out the text, which holds keys.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("versions", &self.versions).finish_non_exhaustive()
    }
}

/// Adds a version, and returns its number.
fn put(secrets: &mut Secrets, id: &str, text: &str, now_ms: u64) -> u64 {
    let number = secrets.get(id).map_or(0, |secret| secret.versions) + 1;
    let current = Version { number, text: text.to_owned(), stored_ms: now_ms };
    let previous = secrets.remove(id).map(|secret| secret.current);
    secrets.insert(id.to_owned(), Secret { current, previous, versions: number });
    number
}

/// Reads the file. `None` if there is none.
fn read(path: &Path) -> Result<Option<Secrets>, LocalError> {
    let failed = |source| LocalError::ReadSecrets { path: path.to_owned(), source };
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Replaces the file.
fn write(path: &Path, secrets: &Secrets) -> io::Result<()> {
    replace_file(path, &serde_json::to_string(secrets)?)
}

fn version_id(number: u64) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// Time as the JSON protocol of AWS writes it.
#[expect(clippy::cast_precision_loss, reason = "milliseconds are far below the limit of an f64")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn not_found(what: &str) -> ServiceResponse {
    ServiceResponse::error(
        400,
        "ResourceNotFoundException",
        &format!("Secrets Manager can't find the specified {what}."),
    )
}

fn invalid(message: &str) -> ServiceResponse {
    ServiceResponse::error(400, "InvalidParameterException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "switchhook-webhook-keys";

    fn secret() -> SecretsManager {
        let secrets = SecretsManager::open(None, Clock::system()).unwrap();
        secrets.put(ID, "old");
        secrets.put(ID, "new");
        secrets
    }

    fn asked(secrets: &SecretsManager, operation: &str, request: &Value) -> (u16, Value) {
        let answer = secrets.handle(operation, request.to_string().as_bytes());
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }

    #[test]
    fn versions_are_listed_with_their_stages() {
        let secrets = secret();
        let (status, answer) = asked(&secrets, "ListSecretVersionIds", &json!({"SecretId": ID}));
        assert_eq!((status, &answer["Name"], &answer["NextToken"]), (200, &json!(ID), &Value::Null), "{answer}");
        let stages: Vec<&Value> =
            answer["Versions"].as_array().unwrap().iter().map(|one| &one["VersionStages"]).collect();
        assert_eq!(stages, [&json!(["AWSCURRENT"]), &json!(["AWSPREVIOUS"])]);
        let (_, value) = asked(&secrets, "GetSecretValue", &json!({"SecretId": ID}));
        assert_eq!(value["VersionId"], answer["Versions"][0]["VersionId"]);
        assert_eq!(value["CreatedDate"], answer["Versions"][0]["CreatedDate"]);
        assert!(value["CreatedDate"].as_f64().unwrap() > 1.6e9, "{value}");
        let (status, answer) = asked(&secrets, "ListSecretVersionIds", &json!({"SecretId": "none"}));
        assert_eq!((status, answer["__type"].as_str()), (400, Some("ResourceNotFoundException")));
    }

    #[test]
    fn value_that_is_too_large_is_refused() {
        let secrets = secret();
        let put = |bytes: usize| json!({"SecretId": ID, "SecretString": "x".repeat(bytes)});
        let (status, answer) = asked(&secrets, "PutSecretValue", &put(SECRET_BYTES_MAX + 1));
        assert_eq!((status, answer["__type"].as_str()), (400, Some("ValidationException")), "{answer}");
        assert_eq!(secrets.current(ID).as_deref(), Some("new"));
        assert_eq!(asked(&secrets, "PutSecretValue", &put(SECRET_BYTES_MAX)).0, 200);
    }

    #[test]
    fn previous_version_becomes_current_again() {
        let secrets = secret();
        let (_, listed) = asked(&secrets, "ListSecretVersionIds", &json!({"SecretId": ID}));
        let id = |index: usize| listed["Versions"][index]["VersionId"].clone();
        let request = json!({"SecretId": ID, "VersionStage": CURRENT, "MoveToVersionId": id(1)});
        let (status, answer) = asked(&secrets, "UpdateSecretVersionStage", &request);
        assert_eq!((status, answer["__type"].as_str()), (400, Some("InvalidParameterException")));
        let mut request = request;
        request["RemoveFromVersionId"] = id(0);
        assert_eq!(asked(&secrets, "UpdateSecretVersionStage", &request).0, 200);
        let text = |stage: &str| asked(&secrets, "GetSecretValue", &json!({"SecretId": ID, "VersionStage": stage})).1;
        assert_eq!((&text(CURRENT)["SecretString"], &text(PREVIOUS)["SecretString"]), (&json!("old"), &json!("new")));
        secrets.put(ID, "newest");
        assert_eq!(text(PREVIOUS)["SecretString"], "old");
        assert_eq!(text(CURRENT)["VersionId"], "00000000-0000-0000-0000-000000000003");
    }

    #[test]
    fn versions_of_requests_and_kept_secrets_survive() {
        let directory = std::env::temp_dir().join(format!("switchhook-secrets-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let open = || SecretsManager::open(Some(&directory), Clock::system()).unwrap();
        let first = open();
        first.put(ID, "set up");
        assert!(!open().is_restored());
        let request = json!({"SecretId": ID, "SecretString": "stored"});
        assert_eq!(asked(&first, "PutSecretValue", &request).0, 200);
        let second = open();
        assert_eq!((second.is_restored(), second.current(ID).as_deref()), (true, Some("stored")));
        let previous = json!({"SecretId": ID, "VersionStage": PREVIOUS});
        assert_eq!(asked(&second, "GetSecretValue", &previous).1["SecretString"], "set up");

        second.put(ID, "kept");
        assert_eq!(open().current(ID).as_deref(), Some("stored"));
        let frozen = SecretsManager::open(Some(&directory), Clock::stopped(std::time::UNIX_EPOCH)).unwrap();
        frozen.put(ID, "frozen");
        frozen.keep().unwrap();
        assert_eq!(open().current(ID).as_deref(), Some("stored"));
        second.keep().unwrap();
        assert_eq!(open().current(ID).as_deref(), Some("kept"));

        fs::remove_dir_all(&directory).unwrap();
        let (status, _) = asked(&second, "PutSecretValue", &request);
        assert_eq!((status, second.current(ID).as_deref()), (500, Some("kept")));
        assert!(matches!(second.keep(), Err(LocalError::WriteSecrets { .. })));
    }
}
