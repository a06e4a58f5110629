//! Files of the repository, read with the parsers of their formats.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "the parsers report more kinds of events than the tests need")]

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

/// The root folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file with this extension, by its path from the root. Hidden folders and build results are left out.
pub(crate) fn files_with_extension(extension: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path.strip_prefix(root()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}

/// A YAML file as JSON. A short tag of CloudFormation becomes an object: `!Ref Name` is `{"!Ref": "Name"}`.
pub(crate) fn yaml(path: &str) -> Value {
    to_json(serde_norway::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}")))
}

fn to_json(value: serde_norway::Value) -> Value {
    use serde_norway::Value as Yaml;
    match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => json!(value),
        Yaml::Number(number) => json!(number),
        Yaml::String(text) => json!(text),
        Yaml::Sequence(values) => values.into_iter().map(to_json).collect(),
        Yaml::Mapping(entries) => {
            let key = |key: &Yaml| match key {
                Yaml::String(text) => text.clone(),
                Yaml::Number(number) => number.to_string(),
                other => panic!("the key {other:?} is neither a text nor a number"),
            };
            Value::Object(entries.into_iter().map(|(name, value)| (key(&name), to_json(value))).collect())
        }
        Yaml::Tagged(tagged) => json!({tagged.tag.to_string(): to_json(tagged.value)}),
    }
}

/// The parts of a Markdown page that the tests read. Texts have no markup.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) headings: Vec<String>,
    pub(crate) paragraphs: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) code_blocks: Vec<CodeBlock>,
    /// Targets of links and images, as they are written.
    pub(crate) links: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct CodeBlock {
    /// Heading of the section that the block is in.
    pub(crate) heading: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        let markdown = read(path);
        let mut page = Self::default();
        let mut text = String::new();
        let mut code = None;
        for event in Parser::new_ext(&markdown, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. } | Tag::Paragraph | Tag::TableCell) => text.clear(),
                Event::Start(Tag::Table(_)) => page.tables.push(Table::default()),
                Event::Start(Tag::TableRow) => {
                    page.tables.last_mut().unwrap().rows.push(Vec::new());
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => language.to_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let heading = page.headings.last().cloned().unwrap_or_default();
                    code = Some(CodeBlock { heading, language, text: String::new() });
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Text(part) if code.is_some() => code.as_mut().unwrap().text.push_str(&part),
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                Event::End(TagEnd::Heading(_)) => page.headings.push(std::mem::take(&mut text)),
                Event::End(TagEnd::Paragraph) => page.paragraphs.push(std::mem::take(&mut text)),
                Event::End(TagEnd::TableCell) => {
                    let table = page.tables.last_mut().unwrap();
                    table.rows.last_mut().unwrap_or(&mut table.header).push(std::mem::take(&mut text));
                }
                Event::End(TagEnd::CodeBlock) => page.code_blocks.extend(code.take()),
                _ => {}
            }
        }
        page
    }

    /// The rows of the only table with this header.
    pub(crate) fn table(&self, header: &[&str]) -> &[Vec<String>] {
        let mut found = self.tables.iter().filter(|table| table.header == header);
        let table = found.next().unwrap_or_else(|| panic!("there is no table {header:?}"));
        assert!(found.next().is_none(), "there are two tables {header:?}");
        &table.rows
    }

    /// Anchors of the headings, as GitHub makes them: `## Run one function` is `run-one-function`.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for heading in &self.headings {
            let kept = heading.to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let repeated = anchors.iter().filter(|known| **known == anchor).count();
            anchors.push(if repeated == 0 { anchor } else { format!("{anchor}-{repeated}") });
        }
        anchors
    }
}
