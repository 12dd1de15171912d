//! Errors in the input, with what a user needs to correct them.

use std::borrow::Cow;
use std::fmt;

/// The most characters that an error shows of a user's value.
const VALUE_MOST: usize = 80;
/// The most characters of a key's dotted path.
const KEY_MOST: usize = 120;
/// The most characters of a file's name and line, or of an override.
const PLACE_MOST: usize = 200;
/// The most characters of a source line.
const LINE_MOST: usize = 160;
/// The most characters of the message, with its list of what would be right.
const MESSAGE_MOST: usize = 900;

/// Bad input: a scenario, an override, or a file that a scenario names.
///
/// Its first line as text names the file and line (or the override), the key, what was found and what would be right.
/// If the input is a line of a scenario, that line follows with the wrong part underlined.
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
        ScenarioError { place: None, key: Some(key.into()), message: bounded(message), excerpt: None }
    }

    /// Something is wrong in line `line` (from 1) of `file`.
    pub(crate) fn at_line(file: &str, line: usize, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_place(format!("{file}:{line}"), message)
    }

    /// Something is wrong with a whole file, or an override.
    pub(crate) fn at_place(place: impl Into<String>, message: impl Into<String>) -> ScenarioError {
        ScenarioError { place: Some(place.into()), key: None, message: bounded(message), excerpt: None }
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
        for (part, most) in [(&self.place, PLACE_MOST), (&self.key, KEY_MOST)] {
            if let Some(part) = part {
                write!(f, "{}: ", elided(part, most))?;
            }
        }
        write!(f, "{}", self.message)?;
        self.excerpt.as_ref().map_or(Ok(()), |excerpt| excerpt.fmt(f))
    }
}

impl std::error::Error for ScenarioError {}

impl Excerpt {
    /// Only the surroundings of the underlined part of a long line are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excerpt { line, text, skip, width } = self;
        let left_out = if text.chars().count() > LINE_MOST { skip.saturating_sub(LINE_MOST / 4) } else { 0 };
        let shown: String = text.chars().skip(left_out).take(LINE_MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (skip, width) = (skip - left_out, (*width).min((LINE_MOST + left_out).saturating_sub(*skip)).max(1));
        let margin = " ".repeat(line.to_string().len());
        write!(f, "\n{margin} |\n{line} | {shown}\n{margin} | {}{}", " ".repeat(skip), "^".repeat(width))
    }
}

/// A user's value as an error shows it.
pub(crate) fn shown(value: &str) -> Cow<'_, str> {
    elided(value, VALUE_MOST)
}

fn bounded(message: impl Into<String>) -> String {
    elided(&message.into(), MESSAGE_MOST).into_owned()
}

/// `text`, or its beginning and its end if it has more than `most` characters. Control characters are escaped, since a terminal would
/// act on them.
fn elided(text: &str, most: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= most && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |part: &mut dyn Iterator<Item = char>| -> String {
        part.flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
    };
    if count <= most {
        return Cow::Owned(escaped(&mut text.chars()));
    }
    let tail = most / 3;
    let (begin, end) = (escaped(&mut text.chars().take(most - tail)), escaped(&mut text.chars().skip(count - tail)));
    Cow::Owned(format!("{begin}… ({count} characters) …{end}"))
}

/// The text after "unknown …": the closest of `candidates`, or all of them if none is close.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, &candidates) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if candidates.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", candidates.join(", ")),
    }
}

/// The closest of `candidates`, if it is close.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    // No valid name is longer, and the cost of the distance is the product of the lengths.
    if word.len() > VALUE_MOST {
        return None;
    }
    let distance = |candidate: &&&str| strsim::damerau_levenshtein(word, candidate);
    // A word with two wrong letters in five is a typing error; with more it is another word.
    candidates.iter().min_by_key(distance).filter(|near| distance(near) * 5 <= near.len().max(word.len()) * 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_shown_by_its_ends() {
        assert_eq!(elided("short µ", 7), "short µ");
        assert_eq!(elided("abcdefghijkl", 6), "abcd… (12 characters) …kl");
        assert_eq!(elided("a\tb\u{1b}[31m", 20), "a\\tb\\u{1b}[31m");
        assert!(shown(&"µ".repeat(1_000_000)).chars().count() < 120);
    }

    #[test]
    fn no_error_is_longer_than_a_screen() {
        let long = "x".repeat(1_000_000);
        for skip in [0, 500_000, 999_999] {
            let excerpt = Excerpt { line: 3, text: long.clone(), skip, width: 1_000_000 - skip };
            let error = ScenarioError::at_key(long.clone(), long.clone()).placed(|_| (long.clone(), Some(excerpt)));
            let text = error.to_string();
            assert!(text.chars().count() < 2_000, "{}", text.chars().count());
            let [.., line, underline] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
            assert!(underline.ends_with('^') && underline.chars().count() <= line.chars().count(), "{line}\n{underline}");
        }
    }
}
