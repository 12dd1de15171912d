//! The modules of the lab do not use each other in circles, so that each can be read, and changed, after those that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The code of a file, without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The files below a folder, without those of unit tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("it has a name").to_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The first words of the paths that begin with `crate::`, also of those in braces: `crate::{a::B, c}` has `a` and `c`.
fn used(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        let paths = rest.strip_prefix('{').map_or_else(|| vec![rest], items);
        found.extend(paths.into_iter().map(first_word));
    }
    found
}

fn first_word(text: &str) -> String {
    text.trim().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// What stands between commas up to the brace that closes the list; inner lists belong to their items.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(&list[begin..at]);
                begin = at + 1;
                if letter == '}' {
                    return found;
                }
            }
            _ => {}
        }
    }
    panic!("a list has no end: {list}");
}

/// Each module with those that it uses. What `lib.rs` exports counts as used from its module.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let library = code(&root.join("lib.rs"));
    let words = |line: &str| -> Vec<String> {
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_owned).collect()
    };
    let mut modules = BTreeSet::new();
    let mut home = BTreeMap::new();
    for line in library.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
            modules.insert(name.1.to_owned());
        } else if let Some((module, names)) = line.strip_prefix("pub use ").and_then(|line| line.split_once("::")) {
            home.extend(words(names).into_iter().map(|name| (name, module.to_owned())));
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = modules.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).expect("it is below");
        let first = inside.components().next().expect("a file").as_os_str();
        let module = Path::new(first).file_stem().expect("it has a name").to_string_lossy().into_owned();
        let Some(uses) = graph.get_mut(&module) else { continue }; // the library itself
        for name in used(&code(&path)) {
            let target = if modules.contains(&name) { Some(&name) } else { home.get(&name) };
            uses.extend(target.filter(|target| **target != module).cloned());
        }
    }
    graph
}

#[test]
fn paths_are_found_in_braces_and_without() {
    let code = "use crate::one::Two;\nuse crate::{Three, four::{Five, six}, seven};\nlet x = crate::eight::nine();";
    assert_eq!(used(code), ["one", "Three", "four", "seven", "eight"].map(str::to_owned).into());
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let mut graph = graph();
    assert!(graph.len() > 30 && graph["run"].contains("plan") && graph["plan"].contains("spec"), "{graph:?}");
    // What uses nothing that is left cannot be in a circle.
    while let Some(leaf) = graph.iter().find(|(_, uses)| uses.is_empty()).map(|(name, _)| name.clone()) {
        graph.remove(&leaf);
        graph.values_mut().for_each(|uses| {
            uses.remove(&leaf);
        });
    }
    assert!(graph.is_empty(), "these modules are in a circle, or use one: {graph:#?}");
}
