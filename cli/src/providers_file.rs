//! The file that `--providers` names.

use std::io;
use std::path::{Path, PathBuf};

use switchhook_providers::{ConfigError, ProvidersFile};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvidersFileError {
    #[error("could not read the providers file {path}: check --providers")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a valid providers file: correct it, `switchhook dev --help` shows the format")]
    Parse {
        path: PathBuf,
        #[source]
        source: ConfigError,
    },
}

/// Reads a providers file.
pub(crate) fn read(path: &Path) -> Result<ProvidersFile, ProvidersFileError> {
    let failed = |source| ProvidersFileError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    ProvidersFile::from_json(without_mark(&text))
        .map_err(|source| ProvidersFileError::Parse { path: path.to_owned(), source })
}

/// Returns the text of a file without the byte order mark, with which some editors begin one.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
