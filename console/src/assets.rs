//! Style sheet and scripts. They are part of the program, and their URL holds their hash.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

const PREFIX: &str = "/assets/";
/// Hexadecimal digits of the hash in a URL.
const HASH_DIGITS: usize = 12;

/// File that pages name.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: [Asset; 5] = [
    Asset { name: "console.css", content_type: CSS, content: include_bytes!("../assets/console.css") },
    Asset { name: "icon.svg", content_type: "image/svg+xml", content: include_bytes!("../assets/icon.svg") },
    Asset { name: "keys.js", content_type: JAVASCRIPT, content: include_bytes!("../assets/keys.js") },
    Asset { name: "live.js", content_type: JAVASCRIPT, content: include_bytes!("../assets/live.js") },
    Asset { name: "timeline.js", content_type: JAVASCRIPT, content: include_bytes!("../assets/timeline.js") },
];

/// Hash of all assets: one changed file gives all a new URL, and scripts may name each other by relative URLs.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in &ASSETS {
        hash.update(asset.content);
    }
    hex::encode(hash.finalize()).chars().take(HASH_DIGITS).collect()
});

/// Returns the URL of an asset.
pub(crate) fn url(name: &str) -> String {
    format!("{PREFIX}{}/{name}", *HASH)
}

/// True if the path leads to an asset of this program.
pub(crate) fn is_asset(path: &str) -> bool {
    ASSETS.iter().any(|asset| path == url(asset.name))
}

/// Answers the request for an asset.
pub(crate) async fn serve(Path((hash, name)): Path<(String, String)>) -> Response {
    let asset = ASSETS.iter().find(|asset| asset.name == name && hash == *HASH);
    match asset {
        Some(asset) => ([(CONTENT_TYPE, asset.content_type)], asset.content).into_response(),
        None => (StatusCode::NOT_FOUND, "There is no such file. Load the page again.\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
