//! Ids of the domain events: the forms that `infra/events` describes and that `docs/events.md` lists.

use std::collections::BTreeSet;

use serde_json::Value;
use switchhook_tests::contract::schema_documents;

use crate::files::Page;

/// Adds the code spans with a slash in the description of each property `id`, also in the definitions of the schema.
fn add_forms(schema: &Value, forms: &mut BTreeSet<String>) {
    let Some(fields) = schema.as_object() else { return };
    for (name, value) in fields {
        if name == "id"
            && let Some(description) = value["description"].as_str()
        {
            let spans = description.split('`').skip(1).step_by(2);
            forms.extend(spans.filter(|span| span.contains('/')).map(str::to_owned));
        }
        add_forms(value, forms);
    }
}

#[test]
fn page_lists_the_ids_of_all_events() {
    let mut described = BTreeSet::new();
    for schema in schema_documents() {
        add_forms(&schema, &mut described);
    }
    let page = Page::read("docs/events.md");
    let table = page.tables.iter().find(|table| table.header[0] == "id").unwrap();
    let listed: BTreeSet<String> = table.rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(listed, described);
}
