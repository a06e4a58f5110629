//! Dependencies between the packages point one way, the core is pure, and only the edge uses the SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::files::{files_with_extension, read, root};

/// Dependencies of each package, without those that only its tests use.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let built_on = package["dependencies"].as_array().unwrap().iter();
            let built_on = built_on.filter(|dependency| dependency["kind"] != "dev");
            let names = built_on.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            (package["name"].as_str().unwrap().to_owned(), names.collect())
        })
        .collect()
}

/// Cargo's description of the packages of this workspace.
fn metadata() -> Value {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    serde_json::from_slice(&metadata.stdout).unwrap()
}

/// If only tests enabled a feature, `make test` and `make demo` would each build every crate that depends on it.
#[test]
fn tests_and_demo_are_built_of_the_same_crates() {
    let tree = |edges: &str| {
        let tree = Command::new(env!("CARGO"))
            .args([
                "tree",
                "--workspace",
                "--locked",
                "--offline",
                "--prefix",
                "none",
                "--format",
                "{p} {f}",
                "--edges",
                edges,
            ])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let lines = String::from_utf8(tree.stdout).unwrap();
        lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<BTreeSet<String>>()
    };
    let (demo, tests) = (tree("no-dev,features"), tree("features"));
    let differing: Vec<&String> = demo.difference(&tests).collect();
    assert!(
        differing.is_empty(),
        "enable the features that tests enable in these crates, as dependencies in tests/Cargo.toml: {differing:?}"
    );
}

/// A dependency that no file of its package names is one that nothing uses. The package of these tests has some only for their features.
#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let sources: Vec<(String, String)> =
        files_with_extension("rs").into_iter().map(|path| (path.clone(), read(&path))).collect();
    let mut unused = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let folder = folder.strip_prefix(root()).unwrap();
        // The simulator includes the scripts of the demo.
        let included = Path::new(if name == "switchhook-tests" { "cli/src/demo" } else { folder.to_str().unwrap() });
        let is_own = |path: &Path| path.starts_with(folder) || path.starts_with(included);
        let own = || sources.iter().filter(|(path, _)| is_own(Path::new(path)));
        for dependency in package["dependencies"].as_array().unwrap() {
            let crate_name = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap().replace('-', "_");
            // The suffix is part of a package's name, and mostly not of its crate's.
            let crate_name = crate_name.trim_end_matches("_rs");
            let is_for_features = name == "switchhook-tests" && dependency["kind"].is_null();
            if !is_for_features && !own().any(|(_, source)| names_crate(source, crate_name)) {
                unused.push(format!("{crate_name} of {name}"));
            }
        }
    }
    assert!(unused.is_empty(), "remove these dependencies: {unused:?}");
}

/// True if a path, an import or an attribute begins with the name of the crate.
fn names_crate(source: &str, name: &str) -> bool {
    let begins = |rest: &str| ["::", ";", " as ", "("].iter().any(|next| rest.starts_with(next));
    source.match_indices(name).any(|(at, _)| {
        let (before, rest) = (&source[..at], &source[at + name.len()..]);
        let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_path = rest.starts_with("::") && !is_word;
        is_path || (["use ", "#["].iter().any(|start| before.ends_with(start)) && begins(rest))
    })
}

/// Layer of a package. It may depend on packages of lower layers.
fn layer(package: &str) -> u8 {
    match package {
        "switchhook-domain" | "switchhook-random" => 0,
        "switchhook-providers" => 1,
        "switchhook-aws" => 2,
        "switchhook-operate" => 3,
        "switchhook-local" | "switchhook-console" => 4,
        "switchhook-cli" | "switchhook-tests" | "switchhook-benches" => 5,
        function => {
            assert!(
                root().join(function.replace("switchhook-", "functions/")).is_dir(),
                "{function} has no layer: add it here"
            );
            3
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    for (package, built_on) in dependencies() {
        for dependency in built_on.iter().filter(|name| name.starts_with("switchhook-")) {
            assert!(layer(dependency) < layer(&package), "{package} must not depend on {dependency}");
        }
    }
}

#[test]
fn core_is_pure() {
    let dependencies = dependencies();
    let of = |package: &str| dependencies[package].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("switchhook-domain"), ["jiff", "serde", "sha2", "thiserror"]);
    let io = ["aws", "tokio", "lambda", "hyper", "tracing", "reqwest", "ureq", "getrandom", "rand", "fastrand"];
    for name in of("switchhook-providers") {
        assert!(!io.iter().any(|io| name.starts_with(io)), "the providers crate must be pure, but {name} does IO");
    }
}

#[test]
fn only_the_edge_knows_the_sdk() {
    let uses_sdk = |built_on: &BTreeSet<String>| {
        built_on
            .iter()
            .any(|name| name.starts_with("aws-sdk-") || name.starts_with("aws-smithy") || name == "aws-config")
    };
    let packages: Vec<String> =
        dependencies().into_iter().filter(|(_, built_on)| uses_sdk(built_on)).map(|(package, _)| package).collect();
    assert_eq!(packages, ["switchhook-aws", "switchhook-benches", "switchhook-local"]);
}
