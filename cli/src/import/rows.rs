//! The rows of a file with calls.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::{CallingWindow, Provider, Timestamp};
use switchhook_providers::{ReadError, distinct_json};

/// Columns of a CSV file, beside `metadata.NAME`.
const COLUMNS: [&str; 13] = [
    "provider",
    "providers",
    "from",
    "to",
    "appointment_id",
    "due_at",
    "window",
    "idempotency_key",
    "retry.attempts_max",
    "retry.delay_seconds",
    "retry.delay_max_seconds",
    "retry.voicemail",
    "retry.unheard",
];
const KEY_FIELD: &str = "idempotency_key";
/// Length of the hash in a key. 128 bits are enough to tell rows apart.
const HASH_BYTES: usize = 16;

/// Values for rows that have none.
#[derive(Debug)]
pub(super) struct Defaults<'a> {
    pub(super) provider: Option<Provider>,
    pub(super) from: Option<&'a str>,
}

/// One call of the file.
#[derive(Debug)]
pub(super) struct Row {
    line: u64,
    key: String,
    /// Body of `POST /calls`.
    body: Map<String, Value>,
    /// Errors found without the stack.
    pub(super) errors: Vec<RowError>,
    /// Error of a due time that has passed for longer than the stack allows for a new call. Only the stack knows whether an earlier
    /// import created the call, so the row is sent.
    pub(super) past_due: Option<RowError>,
}

/// Error in one field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowError {
    pub(super) line: u64,
    /// Empty if the error concerns the whole row.
    pub(super) field: String,
    pub(super) message: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RowsError {
    #[error("could not read {file}")]
    Read {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{0} must be a .csv or a .jsonl file")]
    UnknownFormat(PathBuf),
    #[error("could not read {file} as CSV")]
    Csv {
        file: PathBuf,
        #[source]
        source: csv::Error,
    },
    #[error("{file}:1: {column:?} is not a known column; known columns are {}, metadata.NAME", COLUMNS.join(", "))]
    UnknownColumn { file: PathBuf, column: String },
    #[error("{file}:1: the column {column:?} is there twice")]
    RepeatedColumn { file: PathBuf, column: String },
    #[error("{file}:{line}: {problem}")]
    Quotation { file: PathBuf, line: u64, problem: &'static str },
    #[error("{0} has no rows")]
    Empty(PathBuf),
}

impl RowError {
    pub(super) fn text(&self, file: &Path) -> String {
        let Self { line, field, message } = self;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        format!("{}:{line}: {field}{message}", file.display())
    }

    pub(super) fn json(&self) -> Value {
        json!({"line": self.line, "field": self.field, "message": self.message})
    }
}

impl Row {
    /// Call in a batch.
    pub(super) fn entry(&self) -> Value {
        let mut entry = self.body.clone();
        entry.insert(KEY_FIELD.to_owned(), self.key.as_str().into());
        Value::Object(entry)
    }

    pub(super) fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Provider that is asked first.
    pub(super) fn provider(&self) -> &str {
        let first = self.body.get("providers").and_then(|providers| providers.get(0)?.as_str());
        first.unwrap_or_else(|| self.text("provider"))
    }

    /// Further accounts among its providers.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &str> {
        let all = self.body.get("providers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let all = all.chain([self.text("provider")]);
        all.filter(|name| name.parse::<Provider>().is_ok_and(Provider::is_named))
    }

    /// Errors of a row that the stack refused, from its result in a batch.
    pub(super) fn refusal(&self, result: &Value) -> Vec<RowError> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let problem = result.get("problem").cloned().unwrap_or_default();
        let of_fields = problem.get("errors").and_then(Value::as_array).cloned().unwrap_or_default();
        if of_fields.is_empty() {
            return vec![self.error("", text(&problem, "detail"))];
        }
        of_fields.iter().map(|error| self.error(&text(error, "field"), text(error, "message"))).collect()
    }

    /// True if the row is due before `now`, and nothing was wrong with it then.
    fn was_valid_when_due(&self, now: Timestamp) -> bool {
        let due_at = Timestamp::parse_rfc3339(self.text("due_at")).filter(|due_at| *due_at < now);
        due_at.is_some_and(|due_at| switchhook_api::check_entry(self.entry(), due_at).is_ok())
    }

    fn error(&self, field: &str, message: impl Into<String>) -> RowError {
        RowError { line: self.line, field: field.to_owned(), message: message.into() }
    }
}

/// Reads and checks all rows. `name` is the name of the import, from which the keys are made.
pub(super) fn read_rows(file: &Path, name: &str, defaults: &Defaults<'_>) -> Result<Vec<Row>, RowsError> {
    let text = fs::read_to_string(file).map_err(|source| RowsError::Read { file: file.to_owned(), source })?;
    // Spreadsheets begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut rows = match file.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => csv_rows(file, text)?,
        Some("jsonl") => json_rows(text),
        Some(_) | None => return Err(RowsError::UnknownFormat(file.to_owned())),
    };
    if rows.is_empty() {
        return Err(RowsError::Empty(file.to_owned()));
    }
    let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
    let mut firsts: BTreeMap<String, First> = BTreeMap::new();
    for row in &mut rows {
        complete(row, name, defaults, &mut firsts);
        if row.errors.iter().all(|error| !error.field.is_empty())
            && let Err(problem) = switchhook_api::check_entry(row.entry(), now)
        {
            let known: Vec<String> = row.errors.iter().map(|error| error.field.clone()).collect();
            let errors = problem.errors.into_iter().filter(|error| !known.contains(&error.field));
            let errors: Vec<RowError> = errors.map(|error| row.error(&error.field, error.message)).collect();
            if row.errors.is_empty() && row.was_valid_when_due(now) {
                row.past_due = errors.into_iter().next();
            } else {
                row.errors.extend(errors);
            }
        }
    }
    Ok(rows)
}

/// First row with some content.
struct First {
    line: u64,
    has_own_key: bool,
}

/// Fills in defaults and the key. A row with the content of an earlier one is refused, unless both have keys of their own. It is likely a
/// mistake, and a person would be called twice.
fn complete(row: &mut Row, name: &str, defaults: &Defaults<'_>, firsts: &mut BTreeMap<String, First>) {
    let own_key = row.body.remove(KEY_FIELD);
    let names_provider = row.body.contains_key("provider") || row.body.contains_key("providers");
    if let (false, Some(provider)) = (names_provider, defaults.provider) {
        row.body.insert("provider".to_owned(), provider.as_str().into());
    }
    if let (false, Some(from)) = (row.body.contains_key("from"), defaults.from) {
        row.body.insert("from".to_owned(), from.into());
    }
    let content = Value::Object(row.body.clone()).to_string();
    let has_own_key = own_key.is_some();
    row.key = match own_key {
        Some(Value::String(key)) => key,
        Some(_) => {
            row.errors.push(row.error(KEY_FIELD, "must be text"));
            String::new()
        }
        None => {
            let digest = Sha256::digest(json!([name, content]).to_string());
            let short: Vec<u8> = digest.iter().copied().take(HASH_BYTES).collect();
            format!("import-{}", hex::encode(short))
        }
    };
    // A part that cannot be read is missing in the content.
    if row.errors.is_empty() {
        match firsts.get(&content) {
            Some(First { has_own_key: true, .. }) if has_own_key => {}
            Some(First { line, .. }) => {
                let advice = "for a second call, give both rows an idempotency_key of their own";
                row.errors.push(row.error("", format!("is the same as line {line}; {advice}")));
            }
            None => drop(firsts.insert(content, First { line: row.line, has_own_key })),
        }
    }
}

fn json_rows(text: &str) -> Vec<Row> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let rows = lines.map(|(line, text)| {
        let mut row = Row { line, key: String::new(), body: Map::new(), errors: Vec::new(), past_due: None };
        match distinct_json(text.as_bytes()) {
            Ok(Value::Object(body)) => row.body = body,
            Ok(_) => row.errors.push(row.error("", "must be a JSON object")),
            Err(ReadError::RepeatedField { column, .. }) => {
                row.errors.push(row.error("", format!("names a field twice at column {column}")));
            }
            Err(ReadError::InvalidJson { column, .. }) => {
                row.errors.push(row.error("", format!("is not valid JSON at column {column}")));
            }
            Err(error) => row.errors.push(row.error("", error.to_string())),
        }
        row
    });
    rows.collect()
}

fn csv_rows(file: &Path, text: &str) -> Result<Vec<Row>, RowsError> {
    if let Some((line, problem)) = wrong_quotation(text) {
        return Err(RowsError::Quotation { file: file.to_owned(), line, problem });
    }
    let failed = |source| RowsError::Csv { file: file.to_owned(), source };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let columns: Vec<String> = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
    for (index, column) in columns.iter().enumerate() {
        let (file, column) = (file.to_owned(), column.clone());
        let is_metadata = column.strip_prefix("metadata.").is_some_and(|name| !name.is_empty());
        if !COLUMNS.contains(&column.as_str()) && !is_metadata {
            return Err(RowsError::UnknownColumn { file, column });
        }
        if columns.iter().skip(index + 1).any(|other| *other == column) {
            return Err(RowsError::RepeatedColumn { file, column });
        }
    }
    let mut rows = Vec::new();
    let (mut line, mut read) = (1, 0);
    for record in reader.records() {
        let record = record.map_err(failed)?;
        // The reader's own count is one too low where lines end with CR LF.
        let byte = record.position().and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(read);
        let start = byte + text.bytes().skip(byte).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        line += text.bytes().take(start).skip(read).map(|byte| u64::from(byte == b'\n')).sum::<u64>();
        read = start;
        let mut row = Row { line, key: String::new(), body: Map::new(), errors: Vec::new(), past_due: None };
        for (column, cell) in columns.iter().zip(&record).filter(|(_, cell)| !cell.is_empty()) {
            match value(column, cell) {
                Ok(value) => insert(&mut row.body, column, value),
                Err(message) => row.errors.push(row.error(column, message)),
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the line of the first quoted cell that does not end as it should, and the problem. The CSV reader accepts such a cell, and takes the
/// rows up to the next quotation mark as a part of it. Their calls would not be created.
fn wrong_quotation(text: &str) -> Option<(u64, &'static str)> {
    let mut line = 1;
    let mut bytes = text.bytes().peekable();
    let mut is_cell_start = true;
    while let Some(byte) = bytes.next() {
        if byte == b'"' && is_cell_start {
            let first_line = line;
            loop {
                match bytes.next() {
                    None => return Some((first_line, "a cell has no quotation mark at its end")),
                    Some(b'"') if bytes.peek() == Some(&b'"') => drop(bytes.next()),
                    Some(b'"') => break,
                    Some(byte) => line += u64::from(byte == b'\n'),
                }
            }
            while bytes.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
            if !matches!(bytes.peek(), None | Some(b',' | b'\r' | b'\n')) {
                return Some((first_line, "a cell goes on behind the quotation mark at its end"));
            }
        }
        line += u64::from(byte == b'\n');
        is_cell_start = matches!(byte, b',' | b'\r' | b'\n');
    }
    None
}

/// Value of a cell in the format of the API.
fn value(column: &str, cell: &str) -> Result<Value, String> {
    match column {
        "window" => cell.parse::<CallingWindow>().map(|window| json!(window)).map_err(|error| error.to_string()),
        "retry.attempts_max" | "retry.delay_seconds" | "retry.delay_max_seconds" => {
            cell.parse::<u32>().map(Value::from).map_err(|_| "must be a whole number".to_owned())
        }
        "providers" => Ok(cell.split_whitespace().collect()),
        "retry.voicemail" | "retry.unheard" => {
            cell.parse::<bool>().map(Value::from).map_err(|_| "must be true or false".to_owned())
        }
        _ => Ok(cell.into()),
    }
}

/// Puts the value of a column such as `retry.voicemail` into its place. The names of metadata may contain dots.
fn insert(body: &mut Map<String, Value>, column: &str, value: Value) {
    match column.split_once('.') {
        None => drop(body.insert(column.to_owned(), value)),
        Some((object, name)) => {
            let object = body.entry(object).or_insert_with(|| Value::Object(Map::new()));
            if let Some(object) = object.as_object_mut() {
                object.insert(name.to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults<'_> = Defaults { provider: Some(Provider::Retell), from: Some("+442079460018") };

    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("switchhook-rows-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
            Self(folder.join(name))
        }

        fn rows(&self) -> Vec<Row> {
            read_rows(&self.0, "november", &DEFAULTS).unwrap()
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            drop(self.0.parent().map(fs::remove_dir_all));
        }
    }

    #[test]
    fn rows_of_both_formats_are_the_same_calls() {
        let csv = File::new(
            "b.csv",
            "\u{feff}to, appointment_id ,window,metadata.first.name,retry.attempts_max,retry.voicemail\r\n\
             +447700900123,\"apt \"\"1\"\"\",\"Europe/London 09:00-24:00 mon,tue\",\"Zoë, Ltd\",2,true\r\n\
             +447700900124,,,,,\r\n",
        );
        let jsonl = File::new(
            "b.jsonl",
            "{\"to\": \"+447700900123\", \"appointment_id\": \"apt \\\"1\\\"\", \"metadata\": {\"first.name\": \"Zoë, Ltd\"}, \
             \"window\": {\"time_zone\": \"Europe/London\", \"opens\": \"09:00\", \"closes\": \"24:00\", \"days\": [\"mon\", \"tue\"]}, \
             \"retry\": {\"attempts_max\": 2, \"voicemail\": true}}\n\n{\"to\": \"+447700900124\"}\n",
        );
        let (csv, jsonl) = (csv.rows(), jsonl.rows());
        for (one, other) in csv.iter().zip(&jsonl) {
            assert_eq!((&one.body, &one.key, &one.errors), (&other.body, &other.key, &Vec::new()));
        }
        assert_eq!(csv.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(jsonl.iter().map(|row| row.line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn key_of_a_row_is_that_of_its_content() {
        let keys =
            |text: &str| -> Vec<String> { File::new("k.csv", text).rows().into_iter().map(|row| row.key).collect() };
        let both = keys("to\n+447700900123\n+447700900124\n");
        let moved = keys("to,due_at\n+447700900124,\n+447700900125,\n+447700900123,\n");
        assert_eq!((&both[0], &both[1]), (&moved[2], &moved[0]));
        let file = File::new("k2.csv", "to\n+447700900123\n");
        assert_ne!(read_rows(&file.0, "december", &DEFAULTS).unwrap()[0].key, both[0]);
        let own_providers = File::new("p.csv", "to,providers\n+447700900123,vapi retell\n+447700900124,\n");
        assert_eq!(own_providers.rows().iter().map(Row::provider).collect::<Vec<_>>(), ["vapi", "retell"]);
        assert_eq!(keys("to,idempotency_key\n+447700900123,own\n"), ["own"]);
    }

    #[test]
    fn second_row_with_the_same_content_is_refused_unless_both_have_keys() {
        let file = File::new("t.csv", "to\n+447700900123\n+447700900124\n+447700900123\n");
        let errors: Vec<(u64, String)> =
            file.rows().into_iter().flat_map(|row| row.errors).map(|error| (error.line, error.message)).collect();
        assert_eq!(errors.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4]);
        assert!(errors[0].1.starts_with("is the same as line 2"), "{errors:?}");
        let refused = |rows: &str| {
            let file = File::new("t.csv", &format!("to,idempotency_key,retry.attempts_max\n{rows}"));
            file.rows().iter().map(|row| !row.errors.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(refused("+447700900123,a,\n+447700900123,b,\n"), [false, false]);
        assert_eq!(refused("+447700900123,a,\n+447700900123,,\n"), [false, true]);
        assert_eq!(refused("+447700900123,,\n+447700900123,a,\n"), [false, true]);
        // The first row is another call, whatever its number of attempts was meant to be.
        assert_eq!(refused("+447700900123,,many\n+447700900123,,\n"), [true, false]);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let csv = File::new(
            "e.csv",
            "to,provider,window,retry.attempts_max\n12,generic,,many\n\"+447700900123\",retell,London,\n",
        );
        let errors: Vec<String> = csv
            .rows()
            .iter()
            .flat_map(|row| &row.errors)
            .map(|error| format!("{} {}", error.line, error.field))
            .collect();
        assert_eq!(errors, ["2 retry.attempts_max", "2 provider", "2 to", "3 window"]);
        let jsonl = File::new(
            "e.jsonl",
            "{\"to\": 7}\n[]\n{\n{\"to\": \"+447700900123\", \"idempotency_key\": 1}\n\
             {\"to\": \"+447700900123\", \"idempotency_key\": \"order 7\"}\n\
             {\"to\": \"+447700900123\", \"to\": \"+447700900124\"}\n",
        );
        let errors: Vec<String> = jsonl
            .rows()
            .iter()
            .flat_map(|row| &row.errors)
            .map(|error| format!("{} {}", error.line, error.field))
            .collect();
        assert_eq!(errors, ["1 to", "2 ", "3 ", "4 idempotency_key", "5 idempotency_key", "6 "]);
        assert_eq!(csv.rows()[1].errors[0].text(Path::new("calls.csv")).split(": ").next(), Some("calls.csv:3"));
    }

    #[test]
    fn quoted_cell_that_takes_other_rows_is_refused_with_its_line() {
        let refused = |text: &str| match read_rows(&File::new("q.csv", text).0, "n", &DEFAULTS) {
            Err(RowsError::Quotation { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        let columns = "to,metadata.note\n";
        assert_eq!(refused(&format!("{columns}+447700900123,\"see note\n+447700900124,\n")), 2);
        assert_eq!(refused(&format!("{columns}+447700900123,\"a\nb\"\n+447700900124,\"see\n+447700900125,\n")), 4);
        assert_eq!(refused(&format!("{columns}+447700900123,\"see\n+447700900124,\"other\"\n")), 2);
        let whole =
            format!("{columns}+447700900123,\"one\n\"\"two\"\"\" \r\n+447700900124,6\" nail\n+447700900125,\"\"");
        let notes: Vec<String> =
            File::new("q.csv", &whole).rows()[..2].iter().map(|row| row.body["metadata"]["note"].to_string()).collect();
        assert_eq!(notes, ["\"one\\n\\\"two\\\"\"", "\"6\\\" nail\""]);
    }

    #[test]
    fn file_that_is_none_is_refused() {
        let refused = |name: &str, text: &str| read_rows(&File::new(name, text).0, "n", &DEFAULTS).unwrap_err();
        assert!(matches!(refused("a.txt", "to\n"), RowsError::UnknownFormat(_)));
        assert!(matches!(refused("empty.csv", "to\n"), RowsError::Empty(_)));
        assert!(matches!(refused("empty.jsonl", "\n \n"), RowsError::Empty(_)));
        assert!(matches!(refused("u.csv", "to,tel\n1,2\n"), RowsError::UnknownColumn { .. }));
        assert!(matches!(refused("r.csv", "to,to\n1,2\n"), RowsError::RepeatedColumn { .. }));
        assert!(matches!(refused("s.csv", "to,from\n1\n"), RowsError::Csv { .. }));
        let none = read_rows(Path::new("no such file.csv"), "n", &DEFAULTS).unwrap_err();
        assert!(matches!(none, RowsError::Read { .. }));
    }
}
