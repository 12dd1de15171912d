//! A TOML text with the place where each of its keys was written, and the override that changed it.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::ScenarioError;
use crate::error::Excerpt;

/// Parts of the longest key; the deepest in a scenario has half of them. What is deeper is refused unread, since walking it would take
/// one stack frame for each part.
const PARTS_MOST: usize = 16;

/// A TOML text, and where its keys are.
pub(crate) struct TomlText {
    file: String,
    text: String,
    /// For each dotted path, the bytes from the key's first to the value's last.
    spans: HashMap<String, Range<usize>>,
    /// Dotted path and the text of the override, in the order given.
    overrides: Vec<(String, String)>,
}

impl TomlText {
    /// Reads a TOML text and applies `key.path=value` overrides to it. A value that is no TOML is taken as a string, so that
    /// `workload.sizes=imc10` and `topology.delay=1us` need no quotes.
    ///
    /// # Errors
    /// If the text is no TOML, or an override has no key or does not fit what is there.
    pub fn parse(text: &str, file: &str, overrides: &[String]) -> Result<(TomlText, Table), ScenarioError> {
        let mut source =
            TomlText { file: file.to_owned(), text: text.to_owned(), spans: HashMap::new(), overrides: Vec::new() };
        let syntax = |error: toml::de::Error| source.syntax_error(&error);
        let spanned = DeTable::parse(text).map_err(syntax)?;
        let mut spans = HashMap::new();
        note_table(&mut spans, "", spanned.get_ref());
        let mut table = Table::deserialize(toml::Deserializer::from(spanned)).map_err(syntax)?;
        source.spans = spans;
        for text in overrides {
            let key = apply(&mut table, text).map_err(|message| ScenarioError::at_place(format!("--set {text}"), message))?;
            source.overrides.push((key, text.clone()));
        }
        Ok((source, table))
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let excerpt = self.excerpt(&span);
        let culprit = self.text.get(span).filter(|text| !text.trim().is_empty() && !text.contains('\n'));
        let culprit = culprit.map_or(String::new(), |text| format!(" at {text}"));
        let message = format!("not TOML{culprit}: {}", error.message().replace('\n', ", "));
        ScenarioError::at_line(&self.file, excerpt.line, message).with_excerpt(excerpt)
    }

    /// Fills in the file and line, or the override, of the key at fault.
    pub fn place(&self, error: ScenarioError) -> ScenarioError {
        error.placed(|key| match self.find(key) {
            Found::Override(text) => (format!("--set {text}"), None),
            Found::Span(span) => {
                let excerpt = self.excerpt(&span);
                (format!("{}:{}", self.file, excerpt.line), Some(excerpt))
            }
            Found::Nowhere => (self.file.clone(), None),
        })
    }

    /// The position of a key in the order in which errors are reported: overrides first, then the file from top to bottom.
    pub fn rank(&self, key: &str) -> usize {
        match self.find(key) {
            Found::Override(_) => 0,
            Found::Span(span) => 1 + span.start,
            Found::Nowhere => usize::MAX,
        }
    }

    /// Where `key` was given: by an override; else in the text; else by an override of something in it; else by the table that it belongs
    /// to.
    fn find(&self, key: &str) -> Found<'_> {
        let set = |above: &dyn Fn(&str) -> bool| self.overrides.iter().rev().find(|(path, _)| above(path));
        if let Some((_, text)) = set(&|path| is_at_or_below(key, path)) {
            return Found::Override(text);
        }
        if let Some(span) = self.spans.get(key) {
            return Found::Span(span.clone());
        }
        if let Some((_, text)) = set(&|path| is_at_or_below(path, key)) {
            return Found::Override(text);
        }
        let mut above = key;
        while let Some((parent, _)) = above.rsplit_once('.') {
            if let Some(span) = self.spans.get(parent) {
                return Found::Span(span.clone());
            }
            above = parent;
        }
        Found::Nowhere
    }

    /// The line in which a span begins.
    fn excerpt(&self, span: &Range<usize>) -> Excerpt {
        let start = span.start.min(self.text.len());
        let begin = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let underlined = &self.text[start..span.end.clamp(start, end)];
        Excerpt {
            line: self.text[..start].matches('\n').count() + 1,
            text: self.text[begin..end].replace('\t', " ").trim_end().to_owned(),
            skip: self.text[begin..start].chars().count(),
            width: underlined.trim_end().chars().count().max(1),
        }
    }
}

enum Found<'a> {
    Override(&'a str),
    Span(Range<usize>),
    Nowhere,
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn note_table(spans: &mut HashMap<String, Range<usize>>, path: &str, table: &DeTable<'_>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        note(spans, path, key.span(), value);
    }
}

fn note(spans: &mut HashMap<String, Range<usize>>, path: String, key: Range<usize>, value: &Spanned<DeValue<'_>>) {
    match value.get_ref() {
        DeValue::Table(table) => note_table(spans, &path, table),
        DeValue::Array(array) => {
            for (index, item) in array.iter().enumerate() {
                note(spans, format!("{path}.{index}"), item.span(), item);
            }
        }
        _ => {}
    }
    // A table under a header ends where its header does, or before it; then its key alone is what there is to show.
    let end = value.span().end.max(key.end);
    spans.insert(path, key.start..end);
}

/// Applies one override and says which key it set.
fn apply(root: &mut Table, text: &str) -> Result<String, String> {
    let Some((path, value)) = text.split_once('=').map(|(path, value)| (path.trim(), value.trim())) else {
        return Err("an override is key.path=value, for example workload.load=0.6".to_owned());
    };
    if path.is_empty() || path.split('.').any(str::is_empty) {
        return Err("the key is empty; an override is key.path=value, for example workload.load=0.6".to_owned());
    }
    if path.split('.').count() > PARTS_MOST {
        return Err(format!("the key has more than {PARTS_MOST} parts, which no key has"));
    }
    let value = parse_value(value)?;
    let (parents, last) = path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
    let mut table = root;
    let mut walked = String::new();
    let mut parents = parents.into_iter().flat_map(|parents| parents.split('.')).peekable();
    while let Some(key) = parents.next() {
        walked = if walked.is_empty() { key.to_owned() } else { format!("{walked}.{key}") };
        let mut next = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Array(items) = next {
            let count = items.len();
            let index = parents.next();
            let found = index.and_then(|index| index.parse().ok()).and_then(|index: usize| items.get_mut(index));
            next = found.ok_or_else(|| format!("{walked} is a list of {count}; name one by its number, counted from 0"))?;
        }
        let found = next.type_str();
        table = next.as_table_mut().ok_or_else(|| format!("{walked} is of type {found}, not a table; set it as a whole"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(path.to_owned())
}

fn parse_value(text: &str) -> Result<Value, String> {
    match toml::from_str::<Table>(&format!("value = {text}")) {
        Ok(mut table) if table.len() == 1 => Ok(table.remove("value").expect("the only key")),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => Err(format!("the value is not TOML: {}", error.message())),
        _ if text.is_empty() => Err("the value is empty; write \"\" for an empty string".to_owned()),
        _ => Ok(Value::String(text.to_owned())),
    }
}
