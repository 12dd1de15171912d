//! Checks a TOML value against a JSON schema, so that each error names its key and what would be right.
//!
//! The schemas are the ones that `schemars` derives from the types of a scenario, with everything inlined. Only the parts of JSON schema
//! that they use are known here.

use flowloom_core::{Bytes, Duration, QuantityError, Rate};
use flowloom_transports::quantity::Unit;
use serde_json::{Number, Value as Schema};
use toml::{Table, Value};

use super::toml_text::TomlText;
use crate::ScenarioError;
use crate::error::{shown, suggestion};

/// Checks `table` against `schema`.
///
/// # Errors
/// The first error in the order of the text. Missing keys come after wrong ones, since a slip in a key makes one of each.
pub(crate) fn check(table: &Table, schema: &Schema, source: &TomlText) -> Result<(), ScenarioError> {
    let mut checker = Checker::default();
    checker.table("", schema, &[], table);
    let first = |faults: Vec<(String, String)>| faults.into_iter().min_by_key(|(key, _)| source.rank(key));
    match first(checker.wrong).or_else(|| first(checker.missing)) {
        Some((key, message)) => Err(source.place(ScenarioError::at_key(key, message))),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Checker {
    wrong: Vec<(String, String)>,
    missing: Vec<(String, String)>,
}

impl Checker {
    fn wrong(&mut self, key: &str, message: String) {
        self.wrong.push((key.to_owned(), message));
    }

    fn value(&mut self, key: &str, schema: &Schema, value: &Value) {
        if let Some(words) = words(schema) {
            return self.word(key, &words, value);
        }
        if let Some(branches) = branches(schema) {
            return self.choice(key, &branches, value);
        }
        match (type_of(schema), value) {
            ("object", Value::Table(table)) => self.table(key, schema, &[], table),
            ("array", Value::Array(items)) => self.array(key, schema, items),
            ("string", text) => self.text(key, schema, text),
            ("integer", Value::Integer(number)) => self.range(key, schema, *number as f64, value),
            ("number", Value::Integer(number)) => self.range(key, schema, *number as f64, value),
            ("number", Value::Float(number)) => self.range(key, schema, *number, value),
            ("boolean", Value::Boolean(_)) => {}
            _ => self.wrong(key, format!("found {}, expected {}", found(value), expected(schema))),
        }
    }

    fn word(&mut self, key: &str, words: &[&str], value: &Value) {
        match value {
            Value::String(word) if words.contains(&word.as_str()) => {}
            Value::String(word) => {
                self.wrong(key, format!("\"{}\" is unknown; {}", shown(word), suggestion(word, words.iter().copied())));
            }
            other => self.wrong(key, format!("found {}, expected one of {}", found(other), words.join(", "))),
        }
    }

    fn text(&mut self, key: &str, schema: &Schema, value: &Value) {
        let quantity = |text: &str| check_quantity(schema, text);
        let result = match value {
            // No quantity is so long; the generic message shows its ends.
            Value::String(text) if text.len() > 80 && schema["format"].is_string() => Err(String::new()),
            Value::String(text) => quantity(text).unwrap_or(Ok(())),
            // The error for a bare number names the missing unit.
            Value::Integer(_) | Value::Float(_) => quantity(&value.to_string()).unwrap_or_else(|| Err(String::new())),
            _ => Err(String::new()),
        };
        match result {
            Err(message) if message.is_empty() => {
                self.wrong(key, format!("found {}, expected {}", found(value), expected(schema)));
            }
            Err(message) => self.wrong(key, message),
            Ok(()) => {}
        }
    }

    fn range(&mut self, key: &str, schema: &Schema, number: f64, value: &Value) {
        let inside = number.is_finite()
            && least(schema).is_none_or(|least| number >= least.as_f64().unwrap_or(f64::MIN))
            && most(schema).is_none_or(|most| number <= most.as_f64().unwrap_or(f64::MAX))
            && schema["exclusiveMinimum"].as_f64().is_none_or(|least| number > least);
        if !inside {
            self.wrong(key, format!("found {}, expected {}", found(value), expected(schema)));
        }
    }

    fn array(&mut self, key: &str, schema: &Schema, items: &[Value]) {
        let bound = |name: &str| schema[name].as_u64();
        let count = items.len() as u64;
        if bound("minItems").is_some_and(|least| count < least) || bound("maxItems").is_some_and(|most| count > most) {
            return self.wrong(key, format!("found a list of {count}, expected {}", expected(schema)));
        }
        for (index, item) in items.iter().enumerate() {
            self.value(&format!("{key}.{index}"), &schema["items"], item);
        }
    }

    /// A table that `schema` describes; `alternatives` are what it might have been.
    fn table(&mut self, path: &str, schema: &Schema, alternatives: &[&Schema], table: &Table) {
        let properties = schema["properties"].as_object();
        for (name, value) in table {
            let key = join(path, name);
            match (properties.and_then(|properties| properties.get(name)), &schema["additionalProperties"]) {
                (Some(property), _) => self.value(&key, property, value),
                (None, Schema::Bool(false)) => {
                    let known = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
                    self.wrong(&key, unknown_key(name, known, schema, alternatives));
                }
                (None, Schema::Null | Schema::Bool(true)) => {}
                (None, others) => self.value(&key, others, value),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str);
        for name in required.filter(|name| !table.contains_key(*name)) {
            self.missing.push((join(path, name), format!("missing; give {}", expected(&schema["properties"][name]))));
        }
    }

    /// One of several schemas: told apart by a tag, or by the value's type and keys.
    fn choice(&mut self, key: &str, branches: &[&Schema], value: &Value) {
        if let Some(tag) = branches.iter().find_map(|branch| tag_of(branch)) {
            let Value::Table(table) = value else {
                return self.wrong(key, format!("found {}, expected a table", found(value)));
            };
            let kind_key = join(key, tag);
            let kinds: Vec<&str> = branches.iter().filter_map(|branch| branch["properties"][tag]["const"].as_str()).collect();
            let Some(kind) = table.get(tag) else {
                return self.missing.push((kind_key, format!("missing; give one of {}", kinds.join(", "))));
            };
            let matching = branches.iter().find(|branch| branch["properties"][tag]["const"].as_str() == kind.as_str());
            return match matching {
                Some(branch) if kind.is_str() => self.table(key, branch, branches, table),
                _ => self.word(&kind_key, &kinds, kind),
            };
        }
        let Value::Table(table) = value else {
            let fits = |branch: &&&Schema| match type_of(branch) {
                "string" => value.is_str(),
                "integer" => value.is_integer(),
                "array" => value.is_array(),
                _ => value.is_str() && words(branch).is_some(),
            };
            return match branches.iter().find(fits) {
                Some(branch) => self.value(key, branch, value),
                None => self.wrong(key, format!("found {}, expected {}", found(value), expected_choice(branches))),
            };
        };
        let known = |branch: &&&Schema| table.keys().filter(|name| !branch["properties"][name.as_str()].is_null()).count();
        match branches.iter().filter(|branch| type_of(branch) == "object").max_by_key(known) {
            Some(branch) if known(&branch) > 0 => self.table(key, branch, &[], table),
            Some(_) if !table.is_empty() => {
                let known =
                    || branches.iter().filter_map(|branch| branch["properties"].as_object()).flat_map(|names| names.keys());
                for name in table.keys() {
                    self.wrong(&join(key, name), format!("unknown key; {}", suggestion(name, known().map(String::as_str))));
                }
            }
            _ => self.wrong(key, format!("found {}, expected {}", found(value), expected_choice(branches))),
        }
    }
}

/// Whether `text` is right for the schema of a quantity: its unit, and its range (`x-min` to `x-max`), about which the message is empty.
/// `None` if the schema is no quantity's.
fn check_quantity(schema: &Schema, text: &str) -> Option<Result<(), String>> {
    let check = match schema["format"].as_str()? {
        Duration::FORMAT => check_unit::<Duration>,
        Bytes::FORMAT => check_unit::<Bytes>,
        Rate::FORMAT => check_unit::<Rate>,
        _ => return None,
    };
    Some(check(schema, text))
}

fn check_unit<T: Unit + PartialOrd>(schema: &Schema, text: &str) -> Result<(), String> {
    let value: T = text.parse().map_err(|error: QuantityError| error.to_string())?;
    let bound =
        |name: &str| schema[name].as_str().map(|text| text.parse::<T>().expect("the bounds of a schema are quantities"));
    let inside = bound("x-min").is_none_or(|least| value >= least) && bound("x-max").is_none_or(|most| value <= most);
    if inside { Ok(()) } else { Err(String::new()) }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn unknown_key<'a>(name: &str, known: impl Iterator<Item = &'a str>, schema: &Schema, alternatives: &[&Schema]) -> String {
    let kind = |schema: &Schema| tag_of(schema).map(|tag| format!("{tag} = {}", schema["properties"][tag]["const"]));
    let owner = alternatives.iter().find(|other| !other["properties"][name].is_null()).and_then(|other| kind(other));
    match (owner, kind(schema)) {
        (Some(owner), Some(own)) => format!("not a key of {own}, but of {owner}"),
        _ => format!("unknown key; {}", suggestion(name, known)),
    }
}

/// The branches of a choice, apart from absence, which TOML has no value for.
fn branches(schema: &Schema) -> Option<Vec<&Schema>> {
    let branches = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())?;
    let branches: Vec<&Schema> = branches.iter().filter(|branch| type_of(branch) != "null").collect();
    // A choice between a choice and nothing is that choice.
    if let [only] = branches[..] { self::branches(only).or(Some(branches)) } else { Some(branches) }
}

/// The words that a schema allows, if it allows nothing else.
fn words(schema: &Schema) -> Option<Vec<&str>> {
    if let Some(word) = schema["const"].as_str() {
        return Some(vec![word]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().filter_map(Schema::as_str).collect());
    }
    let words: Option<Vec<Vec<&str>>> = branches(schema)?.into_iter().map(words).collect();
    words.map(|words| words.concat())
}

/// The property that tells this branch from its siblings.
fn tag_of(branch: &Schema) -> Option<&str> {
    let mut properties = branch["properties"].as_object()?.iter();
    properties.find(|(_, property)| !property["const"].is_null()).map(|(name, _)| name.as_str())
}

fn type_of(schema: &Schema) -> &str {
    match &schema["type"] {
        Schema::String(name) => name,
        Schema::Array(names) => names.iter().filter_map(Schema::as_str).find(|name| *name != "null").unwrap_or("null"),
        _ => "any",
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{}\"", shown(text)),
        Value::Float(number) if number.abs() >= 1e16 => format!("{number:e}"),
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}

fn expected(schema: &Schema) -> String {
    if let Some(words) = words(schema) {
        let few = words.iter().take(6).copied().collect::<Vec<_>>().join(", ");
        return if words.len() > 6 { format!("one of {few} and {} more", words.len() - 6) } else { format!("one of {few}") };
    }
    if let Some(branches) = branches(schema) {
        return expected_choice(&branches);
    }
    let example = &schema["examples"][0];
    let example = if example.is_null() { String::new() } else { format!(", such as {example}") };
    match type_of(schema) {
        "string" => match schema["format"].as_str().and_then(|format| format.strip_prefix("quantity-")) {
            Some("bytes") => format!("a number of bytes{}{example}", expected_span(schema)),
            Some(quantity) => format!("a {quantity}{}{example}", expected_span(schema)),
            None => format!("a text{example}"),
        },
        "integer" => format!("a whole number{}{example}", expected_range(schema)),
        "number" => format!("a number{}{example}", expected_range(schema)),
        "boolean" => "true or false".to_owned(),
        "array" => match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
            (Some(least), Some(most)) if least == most => format!("a list of {least}"),
            (Some(least), Some(most)) => format!("a list of {least} to {most}"),
            _ => "a list".to_owned(),
        },
        _ => expected_table(schema),
    }
}

fn expected_range(schema: &Schema) -> String {
    let (least, most) = (least(schema), most(schema));
    if let (Some(least), Some(most)) = (&least, &most) {
        return format!(" from {least} to {most}");
    }
    let above = schema["exclusiveMinimum"].as_number();
    let say = |words: &str, bound: Option<&Number>| bound.map(|bound| format!("{words} {bound}"));
    let bounds = [say("at least", least.as_ref()), say("above", above), say("at most", most.as_ref())];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    if bounds.is_empty() { String::new() } else { format!(" {}", bounds.join(" and ")) }
}

/// The least value that a schema allows: what it says, or what its type can hold.
fn least(schema: &Schema) -> Option<Number> {
    let of_type = match schema["format"].as_str() {
        Some("int8") => Some(i8::MIN.into()),
        Some("int16") => Some(i16::MIN.into()),
        Some("int32") => Some(i32::MIN.into()),
        _ => None,
    };
    schema["minimum"].as_number().cloned().or(of_type)
}

/// The most; whatever TOML can write fits in 64 bits.
fn most(schema: &Schema) -> Option<Number> {
    let of_type = match schema["format"].as_str() {
        Some("uint8") => Some(u8::MAX.into()),
        Some("uint16") => Some(u16::MAX.into()),
        Some("uint32") => Some(u32::MAX.into()),
        Some("int8") => Some(i8::MAX.into()),
        Some("int16") => Some(i16::MAX.into()),
        Some("int32") => Some(i32::MAX.into()),
        _ => None,
    };
    schema["maximum"].as_number().cloned().or(of_type)
}

/// The range of a quantity.
fn expected_span(schema: &Schema) -> String {
    match (schema["x-min"].as_str(), schema["x-max"].as_str()) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        _ => String::new(),
    }
}

fn expected_table(schema: &Schema) -> String {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str).collect();
    if required.is_empty() { "a table".to_owned() } else { format!("a table with {}", required.join(" and ")) }
}

fn expected_choice(branches: &[&Schema]) -> String {
    match branches.iter().find_map(|branch| tag_of(branch)) {
        Some(tag) => format!("a table with {tag}"),
        None => branches.iter().map(|branch| expected(branch)).collect::<Vec<_>>().join(", or "),
    }
}
