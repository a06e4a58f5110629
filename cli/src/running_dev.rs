//! The file in which a running `switchhook dev` says where it listens, so that other commands find it.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A running `switchhook dev`. Its file is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct RunningDev {
    path: PathBuf,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// URL of the stack.
    to: String,
    /// Id of its process.
    pid: u32,
}

impl RunningDev {
    /// Writes the file of this process. `None` if the machine has no directory for it. A stack that started before is
    /// no longer named.
    pub(crate) fn announce(to: &str) -> io::Result<Option<Self>> {
        let Some(path) = path() else { return Ok(None) };
        let content = Content { to: to.to_owned(), pid: std::process::id() };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, serde_json::to_string(&content)?)?;
        Ok(Some(Self { path, content }))
    }

    /// Returns the URL of the `switchhook dev` that started last. It may have been killed.
    pub(crate) fn url() -> Option<String> {
        read(&path()?).map(|content| content.to)
    }
}

impl Drop for RunningDev {
    fn drop(&mut self) {
        // Another stack may have started since.
        if read(&self.path).as_ref() == Some(&self.content) {
            // If this fails, the file is stale, and no command uses it.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn read(path: &PathBuf) -> Option<Content> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn path() -> Option<PathBuf> {
    Some(directory("XDG_STATE_HOME", ".local/state")?.join("dev.json"))
}

/// Returns this program's directory under the one that the variable names, or under its usual place in the home
/// directory.
pub(crate) fn directory(variable: &str, usual: &str) -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(usual)))?;
    Some(base.join("switchhook"))
}
