//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file, which only its owner may read. A kill or a power cut leaves the old file or the new one.
///
/// # Errors
/// The file could not be written.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    // Without this, the new name may be on the disk before the content is.
    file.sync_all()?;
    fs::rename(unfinished, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
