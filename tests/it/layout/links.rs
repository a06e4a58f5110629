//! Relative links of the documentation lead to files and headings that are there.

use std::path::Path;

use crate::files::{Page, files_with_extension, root};

#[test]
fn every_relative_link_leads_to_a_file_and_to_a_heading() {
    let mut broken = Vec::new();
    for path in files_with_extension("md") {
        let page = Page::read(&path);
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                _ => Path::new(&path).parent().unwrap().join(file).to_string_lossy().into_owned(),
            };
            let is_found = root().join(&target).exists();
            let is_page = Path::new(&target).extension().is_some_and(|extension| extension == "md");
            let has_anchor = || !is_page || Page::read(&target).anchors().iter().any(|known| known == anchor);
            if !is_found || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "these links lead to no file or heading: {broken:#?}");
}
