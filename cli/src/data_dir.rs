//! Files that `switchhook demo` and `switchhook dev` keep in a data directory, beside those of the local stack.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchhook_local::replace_file;

/// Time of a stack's clock, as a later run needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClockFile {
    /// Milliseconds that the clock runs ahead of the system's, because time was skipped. Negative if it runs behind, because the stack
    /// goes on from the end of a demo. `None` if neither was the case yet.
    pub(crate) ahead_ms: Option<i64>,
    /// Time at which the demo ended, in Unix milliseconds. `None` if no demo wrote this directory.
    pub(crate) ended_ms: Option<u64>,
}

/// A data directory that holds a demo without its end, and maybe without its keys.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} holds an unfinished demo: if it no longer runs, delete the directory and run `switchhook demo --data {path}` again",
    path = .0.display()
)]
pub(crate) struct UnfinishedDemo(PathBuf);

/// Reason why a demo cannot use a directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartDemoError {
    #[error(transparent)]
    Unfinished(#[from] UnfinishedDemo),
    #[error("{} is not empty: name a new directory for --data", .0.display())]
    NotEmpty(PathBuf),
    #[error("could not make the directory {}: check --data", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A data directory.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Makes the directory for a demo. Until [`DataDir::finish_demo`], a file in it says that the demo is unfinished.
    ///
    /// # Errors
    /// The directory exists and is not empty: the demo overwrites no file of the user, such as `providers.json`.
    pub(crate) fn start_demo(&self) -> Result<(), StartDemoError> {
        self.refuse_unfinished_demo()?;
        let make = |source| StartDemoError::Make { path: self.0.clone(), source };
        fs::create_dir_all(&self.0).map_err(make)?;
        if fs::read_dir(&self.0).map_err(make)?.next().is_some() {
            return Err(StartDemoError::NotEmpty(self.0.clone()));
        }
        File::create(self.unfinished_path()).map(drop).map_err(make)
    }

    /// Records that the demo has written everything.
    pub(crate) fn finish_demo(&self) -> io::Result<()> {
        fs::remove_file(self.unfinished_path())
    }

    /// Returns an error if the directory holds a demo that was interrupted, or that still runs.
    pub(crate) fn refuse_unfinished_demo(&self) -> Result<(), UnfinishedDemo> {
        if self.unfinished_path().exists() { Err(UnfinishedDemo(self.0.clone())) } else { Ok(()) }
    }

    /// Path of the providers file. `None` if the directory has none.
    pub(crate) fn providers(&self) -> Option<PathBuf> {
        Some(self.providers_path()).filter(|path| path.exists())
    }

    /// Replaces the file of the providers. Only its owner can read it, because it holds keys.
    pub(crate) fn write_providers(&self, document: &str) -> io::Result<()> {
        replace_file(&self.providers_path(), document)
    }

    /// Keys that `switchhook dev` generated. `None` if it generated none for this directory.
    pub(crate) fn keys(&self) -> io::Result<Option<String>> {
        read_if_there(&self.keys_path())
    }

    /// Replaces the file of the generated keys. A kill or a power cut leaves the old file or the new one.
    pub(crate) fn write_keys(&self, text: &str) -> io::Result<()> {
        replace_file(&self.keys_path(), text)
    }

    /// Reads the file of the clock. Without one, the clock is the system's.
    pub(crate) fn clock(&self) -> io::Result<ClockFile> {
        match read_if_there(&self.clock_path())? {
            Some(text) => Ok(serde_json::from_str(&text)?),
            None => Ok(ClockFile::default()),
        }
    }

    /// Replaces the file of the clock. A kill or a power cut leaves the old file or the new one.
    pub(crate) fn write_clock(&self, clock: ClockFile) -> io::Result<()> {
        replace_file(&self.clock_path(), &serde_json::to_string(&clock)?)
    }

    /// Id of the call that the demo recommends. `None` if no demo wrote this directory.
    pub(crate) fn look_first(&self) -> io::Result<Option<String>> {
        read_if_there(&self.look_first_path())
    }

    pub(crate) fn write_look_first(&self, call_id: &str) -> io::Result<()> {
        fs::write(self.look_first_path(), call_id)
    }

    /// Metrics of the demo. `None` if no demo kept them in this directory.
    pub(crate) fn metrics(&self) -> io::Result<Option<String>> {
        read_if_there(&self.metrics_path())
    }

    pub(crate) fn write_metrics(&self, text: &str) -> io::Result<()> {
        fs::write(self.metrics_path(), text)
    }

    fn unfinished_path(&self) -> PathBuf {
        self.0.join("unfinished-demo")
    }

    fn metrics_path(&self) -> PathBuf {
        self.0.join("metrics.json")
    }

    fn look_first_path(&self) -> PathBuf {
        self.0.join("look-first")
    }

    fn providers_path(&self) -> PathBuf {
        self.0.join("providers.json")
    }

    fn keys_path(&self) -> PathBuf {
        self.0.join("generated-keys.json")
    }

    fn clock_path(&self) -> PathBuf {
        self.0.join("clock.json")
    }
}

/// Reads a file. `None` if there is none.
fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
