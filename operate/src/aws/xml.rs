//! Texts in the XML of the query protocol.

use roxmltree::{Document, Node};

/// Returns the text of the first element with this name.
pub(super) fn first_text(xml: &str, name: &str) -> Option<String> {
    let document = Document::parse(xml).ok()?;
    let text = descendants(document.root(), name).next()?.text()?.to_owned();
    Some(text)
}

/// Returns the texts of two elements in each member of a list, for example a key and a value. A value that is missing is empty:
/// CloudFormation answers so for a parameter that is set to nothing. A member without a key is left out.
pub(super) fn pairs(xml: &str, list: &str, key: &str, value: &str) -> Option<Vec<(String, String)>> {
    let document = Document::parse(xml).ok()?;
    let list = descendants(document.root(), list).next()?;
    let text = |node: Node<'_, '_>, name: &str| Some(descendants(node, name).next()?.text()?.trim().to_owned());
    let members = list.children().filter(Node::is_element);
    Some(members.filter_map(|member| Some((text(member, key)?, text(member, value).unwrap_or_default()))).collect())
}

/// Returns the texts of these elements in each member of a list. An element that is missing is empty.
pub(super) fn members<const N: usize>(xml: &str, list: &str, names: [&str; N]) -> Vec<[String; N]> {
    let Ok(document) = Document::parse(xml) else { return Vec::new() };
    let Some(list) = descendants(document.root(), list).next() else { return Vec::new() };
    let text = |node: Node<'_, '_>, name: &str| {
        let text = descendants(node, name).next().and_then(|node| Some(node.text()?.trim().to_owned()));
        text.unwrap_or_default()
    };
    list.children().filter(Node::is_element).map(|member| names.map(|name| text(member, name))).collect()
}

fn descendants<'a, 'i: 'a>(node: Node<'a, 'i>, name: &str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.descendants().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
