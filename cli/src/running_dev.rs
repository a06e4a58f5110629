//! The files in which every running `switchhook dev` says where it listens, so that other commands find it. Each has the name of
//! its port, which no other process can have.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
    /// Writes the file of this process, which listens on this port. `None` if the machine has no directory for it.
    pub(crate) fn announce(to: &str, port: u16) -> io::Result<Option<Self>> {
        let Some(folder) = folder() else { return Ok(None) };
        let content = Content { to: to.to_owned(), pid: std::process::id() };
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{port}.json"));
        fs::write(&path, serde_json::to_string(&content)?)?;
        Ok(Some(Self { path, content }))
    }

    /// Returns the URLs in all files, in their order. A stack that was killed has left its file behind.
    pub(crate) fn urls() -> Vec<String> {
        let files = folder().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let mut urls: Vec<String> = files.filter_map(|file| Some(read(&file.path())?.to)).collect();
        urls.sort();
        urls
    }
}

impl Drop for RunningDev {
    fn drop(&mut self) {
        // The port may be free already, so another stack may have started on it.
        if read(&self.path).as_ref() == Some(&self.content) {
            // If this fails, the file is stale, and no command uses it.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn read(path: &Path) -> Option<Content> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn folder() -> Option<PathBuf> {
    Some(directory("XDG_STATE_HOME", ".local/state")?.join("dev"))
}

/// Returns this program's directory under the one that the variable names, or under its usual place in the home
/// directory.
pub(crate) fn directory(variable: &str, usual: &str) -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(usual)))?;
    Some(base.join("switchhook"))
}
