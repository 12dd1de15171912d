//! The objects that are shipped are what their sources compile to.

#![cfg(target_os = "linux")]

mod testbed;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use aya_obj::Object;

/// Other versions of the compiler choose other instructions.
const COMPILER: &str = "clang version 14.";

/// Map names with their kind, their sizes of keys and values, and their number of entries.
fn maps(object: &Object) -> BTreeMap<&str, [u32; 4]> {
    let numbers = |map: &aya_obj::Map| [map.map_type(), map.key_size(), map.value_size(), map.max_entries()];
    object.maps.iter().map(|(name, map)| (name.as_str(), numbers(map))).collect()
}

/// Function names with their instructions.
fn functions(object: &Object) -> BTreeMap<&str, String> {
    object.functions.values().map(|function| (function.name.as_str(), format!("{:?}", function.instructions))).collect()
}

#[test]
fn the_objects_are_what_their_sources_compile_to() {
    let Ok(version) = Command::new("clang").arg("--version").output() else {
        return testbed::skip("clang is missing");
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/build");
    let built = Command::new(build).arg(out).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let objects = [("pias", flowloom_tagger::OBJECT, 5), ("port", flowloom_tagger::port::OBJECT, 2)];
    for (name, shipped, count) in objects {
        let bytes = std::fs::read(out.join(format!("{name}.bpf.o"))).unwrap();
        let (ours, new) = (Object::parse(shipped).unwrap(), Object::parse(&bytes).unwrap());
        assert_eq!(maps(&new), maps(&ours));
        assert_eq!(maps(&ours).len(), count);
        assert_eq!(new.license, ours.license);
        assert_eq!(functions(&new).keys().collect::<Vec<_>>(), functions(&ours).keys().collect::<Vec<_>>());
        if version.contains(COMPILER) {
            assert_eq!(functions(&new), functions(&ours), "crates/tagger/bpf/build renews the objects");
        } else {
            println!("only maps and names were compared: the objects were built by {COMPILER}, and this is {version}");
        }
    }
}
