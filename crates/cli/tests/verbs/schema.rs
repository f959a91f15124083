//! Whether what a verb prints is as its schema says (docs/reference/schemas). Used by other tests as well.

use serde_json::Value;
use std::path::Path;

/// Panics unless `text` is an object that the schema `name` describes.
#[track_caller]
pub fn must_hold(name: &str, text: &str) {
    let object: Value = serde_json::from_str(text.trim()).unwrap_or_else(|why| panic!("{name}: {why}: {text}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas").join(format!("{name}.json"));
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let wrong: Vec<String> = schema.iter_errors(&object).map(|why| format!("{}: {why}", why.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?} in {text}");
}
