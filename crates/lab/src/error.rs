//! Errors in the input, with what a user needs to mend them.

use std::fmt;

/// Bad input: a scenario, an override, or a file that a scenario names.
///
/// Displayed, the first line says all: the file and line (or the override), the key, what was found and what would be right.
/// Where the input is a line of a scenario, that line follows with the culprit underlined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// `scenario.toml:12` or `--set workload.load=3`.
    place: Option<String>,
    /// The key's dotted path.
    key: Option<String>,
    message: String,
    excerpt: Option<Excerpt>,
}

/// A source line and the part of it to underline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Excerpt {
    /// Counted from 1.
    pub line: usize,
    pub text: String,
    /// Characters before the underlined part.
    pub skip: usize,
    /// Characters underlined, at least one.
    pub width: usize,
}

impl ScenarioError {
    /// Something is wrong with the value of `key`. Its place is filled in later, by [`ScenarioError::placed`].
    pub(crate) fn at_key(key: impl Into<String>, message: impl Into<String>) -> ScenarioError {
        ScenarioError { place: None, key: Some(key.into()), message: message.into(), excerpt: None }
    }

    /// Something is wrong in line `line` (from 1) of `file`.
    pub(crate) fn at_line(file: &str, line: usize, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_place(format!("{file}:{line}"), message)
    }

    /// Something is wrong with a whole file, or an override.
    pub(crate) fn at_place(place: impl Into<String>, message: impl Into<String>) -> ScenarioError {
        ScenarioError { place: Some(place.into()), key: None, message: message.into(), excerpt: None }
    }

    /// The same error with its key below `part` instead of `whole`.
    pub(crate) fn moved(mut self, whole: &str, part: &str) -> ScenarioError {
        let below = self.key.as_deref().and_then(|key| key.strip_prefix(whole)).map(|rest| format!("{part}{rest}"));
        self.key = below.or(self.key);
        self
    }

    /// The same error with the place that `locate` gives for its key. An error that has a place already keeps it.
    pub(crate) fn placed(mut self, locate: impl FnOnce(&str) -> (String, Option<Excerpt>)) -> ScenarioError {
        if let (None, Some(key)) = (&self.place, &self.key) {
            let (place, excerpt) = locate(key);
            self.place = Some(place);
            self.excerpt = excerpt;
        }
        self
    }

    /// The same error with the source line under it.
    pub(crate) fn with_excerpt(mut self, excerpt: Excerpt) -> ScenarioError {
        self.excerpt = Some(excerpt);
        self
    }

    /// The dotted path of the key at fault, if it is one key's fault.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.place, &self.key].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        write!(f, "{}", self.message)?;
        let Some(Excerpt { line, text, skip, width }) = &self.excerpt else { return Ok(()) };
        let margin = " ".repeat(line.to_string().len());
        write!(f, "\n{margin} |\n{line} | {text}\n{margin} | {}{}", " ".repeat(*skip), "^".repeat(*width))
    }
}

impl std::error::Error for ScenarioError {}

/// What follows "unknown …": the closest of `candidates`, or all of them where none is close.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, &candidates) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if candidates.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", candidates.join(", ")),
    }
}

fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let distance = |candidate: &&&str| strsim::damerau_levenshtein(word, candidate);
    // Two letters of five wrong are still a slip; more is another word.
    candidates.iter().min_by_key(distance).filter(|near| distance(near) * 5 <= near.len().max(word.len()) * 2).copied()
}
