//! House rules for source files: no file is too long, and no test is where none is run. The modules of a crate do not import each other in a
//! circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{files_with_extension, read};

/// Largest number of lines of a file with its tests.
const LINES_MAX: usize = 700;
/// Largest number of lines of a file without its tests.
const LINES_WITHOUT_TESTS_MAX: usize = 500;

#[test]
fn no_file_is_too_long() {
    let mut long = Vec::new();
    for path in files_with_extension("rs") {
        let text = read(&path);
        let all = text.lines().count();
        let own = if is_test(&path) { 0 } else { without_tests(&text).lines().count() };
        if all > LINES_MAX || own > LINES_WITHOUT_TESTS_MAX {
            long.push(format!("{path}: {all} lines, {own} without its tests"));
        }
    }
    assert!(long.is_empty(), "split these files by concern: {long:#?}");
}

fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs")
}

/// The programs of the functions are wiring. So Cargo links none of them for tests.
#[test]
fn no_test_is_where_none_is_run() {
    let is_wiring = |path: &String| path.starts_with("functions/") && path.ends_with("/main.rs");
    let wiring: Vec<String> = files_with_extension("rs").into_iter().filter(is_wiring).collect();
    assert_eq!(wiring.len(), 7);
    let lost: Vec<&String> = wiring.iter().filter(|path| read(path).contains("#[test]")).collect();
    assert!(lost.is_empty(), "put these tests into lib.rs: {lost:#?}");
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for (root, modules) in crates() {
        let imports = imports(&modules);
        circles.extend(circle(&imports).map(|circle| format!("{root}: {}", circle.join(" -> "))));
    }
    assert!(circles.is_empty(), "these modules import each other: {circles:#?}");
}

/// Returns the text before the inline module of tests, which is always the last item of a file.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(own, _)| own)
}

/// Returns the modules of each crate, by the crate's root file. A module has a path, which is empty for the root, and a
/// text without inline tests. Modules whose name ends with `tests` are left out.
fn crates() -> BTreeMap<String, BTreeMap<String, String>> {
    let files = files_with_extension("rs");
    let roots: Vec<&String> = files.iter().filter(|path| is_crate_root(path)).collect();
    let mut crates = BTreeMap::new();
    for root in roots {
        let folder = root.rsplit_once('/').unwrap().0;
        let mut modules = BTreeMap::from([(String::new(), without_tests(&read(root)).to_owned())]);
        for path in files.iter().filter(|path| path.starts_with(&format!("{folder}/")) && *path != root) {
            let inner = &path[folder.len() + 1..];
            let name = inner.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            if !is_crate_root(path) && !name.ends_with("tests") {
                modules.insert(name, without_tests(&read(path)).to_owned());
            }
        }
        crates.insert(root.clone(), modules);
    }
    crates
}

/// True for the root file of a library, a program, or a folder of integration tests. An integration test in a single
/// file is left out, because it has no modules.
fn is_crate_root(path: &str) -> bool {
    path.ends_with("/lib.rs") || path.ends_with("/main.rs")
}

/// Returns, for each module, the modules of the same crate that it imports from. If a module re-exports a name, the
/// import counts for the module that defines the name.
///
/// Only `use` items outside of functions and inline modules are read. A path inside an expression is not.
fn imports(modules: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports = BTreeMap::new();
    for (module, text) in modules {
        let mut own = BTreeSet::new();
        for (path, is_public) in use_paths(text) {
            let Some(path) = absolute(&path, module, modules) else { continue };
            let target = defining_module(&path, modules);
            // A facade that re-exports its parts imports nothing for itself.
            let is_facade = is_public && (module.is_empty() || target.starts_with(&format!("{module}::")));
            if target != *module && !is_facade {
                own.insert(target);
            }
        }
        imports.insert(module.clone(), own);
    }
    imports
}

/// Returns every path of the `use` items in a file, with `true` for a re-export. Braces are expanded.
fn use_paths(text: &str) -> Vec<(Vec<String>, bool)> {
    let mut paths = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_public = line.starts_with("pub");
        let Some(start) = line.find("use ").filter(|at| *at == 0 || is_public && line[..*at].ends_with(' ')) else {
            continue;
        };
        let mut item = line[start + 4..].to_owned();
        while !item.contains(';') {
            item.push_str(lines.next().unwrap().trim());
        }
        let item = item.split(';').next().unwrap().replace(' ', "");
        paths
            .extend(expanded(&item).into_iter().map(|path| (path.split("::").map(str::to_owned).collect(), is_public)));
    }
    paths
}

/// Expands `a::{b,c::d}` to `a::b` and `a::c::d`.
fn expanded(item: &str) -> Vec<String> {
    let Some((prefix, rest)) = item.split_once('{') else { return vec![item.to_owned()] };
    let inner = rest.strip_suffix('}').unwrap();
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    for c in inner.chars() {
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth = depth + u32::from(c == '{') - u32::from(c == '}');
                parts.last_mut().unwrap().push(c);
            }
        }
    }
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&part)).map(|part| format!("{prefix}{part}")).collect()
}

/// Returns the path from the root of the crate. `None` if the path names another crate.
fn absolute(path: &[String], module: &str, modules: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let mut base: Vec<String> = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    match path[0].as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([&base, &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len() - ups);
            Some([&base, &path[ups..]].concat())
        }
        child => {
            let child = [base.as_slice(), &[child.to_owned()]].concat().join("::");
            modules.contains_key(&child).then(|| [&base, path].concat())
        }
    }
}

/// Returns the module that defines the item at this path.
fn defining_module(path: &[String], modules: &BTreeMap<String, String>) -> String {
    let mut length = path.len();
    while length > 0 && !modules.contains_key(&path[..length].join("::")) {
        length -= 1;
    }
    let module = path[..length].join("::");
    let Some(name) = path.get(length) else { return module };
    for (exported, is_public) in use_paths(&modules[&module]) {
        if is_public && exported.last() == Some(name) {
            let target = absolute(&exported, &module, modules).map(|path| defining_module(&path, modules));
            return target.unwrap_or(module);
        }
    }
    module
}

/// Returns the modules of one circle of imports. The first module is repeated at the end.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn visit<'a>(
        module: &'a str,
        imports: &'a BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|other| *other == module) {
            let name = |module: &&str| if module.is_empty() { "(root)".to_owned() } else { (*module).to_owned() };
            return Some(path[start..].iter().chain([&module]).map(name).collect());
        }
        if !done.insert(module) {
            return None;
        }
        path.push(module);
        let found = imports[module].iter().find_map(|next| visit(next, imports, path, done));
        path.pop();
        found
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| visit(module, imports, &mut Vec::new(), &mut done))
}

#[test]
fn circles_are_found() {
    let modules = |files: &[(&str, &str)]| {
        let modules = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        circle(&imports(&modules)).map(|circle| circle.join(" "))
    };
    let facade = "mod a;\nmod b;\npub use a::A;\n";
    assert_eq!(modules(&[("", facade), ("a", ""), ("b", "use crate::A;")]), None);
    let circle = Some("a b a".to_owned());
    assert_eq!(modules(&[("", facade), ("a", "use crate::b::{self, B};"), ("b", "use crate::A;")]), circle);
    assert_eq!(modules(&[("", facade), ("a", "use super::b::B;"), ("b", "use super::{\n    a::A,\n};")]), circle);
    let upwards = Some("(root) a (root)".to_owned());
    assert_eq!(modules(&[("", "mod a;\nuse a::A;\nstruct Root;"), ("a", "use crate::Root;"), ("b", "")]), upwards);
}
