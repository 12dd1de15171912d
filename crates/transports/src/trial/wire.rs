//! What every wire format promises.

use std::cell::Cell;
use std::fmt::Debug;

use flowloom_core::{Layout, Message, Wire, WireUnit};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Asserts what a wire format promises. A written header reads back, whatever bytes follow it, and a truncated one does not. Its bytes
/// follow the format's layout, and the longest of many headers takes [`Wire::MAX_BYTES`]. Whatever is read is written as the same bytes.
pub fn wire_format_holds<H: Wire + PartialEq + Debug>(headers: impl Strategy<Value = H>) {
    let bytes = || prop::collection::vec(any::<u8>(), 0..8);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0_u8..10, any::<u8>()]), 0..4);
    let longest = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(1024));
    let held = runner.run(&(headers, bytes(), changes, bytes()), |(header, rest, changes, arbitrary)| {
        let mut written = vec![0; H::MAX_BYTES];
        let length = header.encode(&mut written);
        longest.set(longest.get().max(length));
        let mut bytes = [&written[..length], &rest].concat();
        prop_assert_eq!(H::decode(&bytes), Some((header, length)));
        prop_assert!((0..length).all(|short| H::decode(&bytes[..short]).is_none()));
        follows_layout(&header, &bytes[..length])?;
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) = byte;
        }
        for bytes in [bytes, arbitrary] {
            if let Some((header, length)) = H::decode(&bytes) {
                prop_assert_eq!(header.encode(&mut written), length);
                prop_assert_eq!(&written[..length], &bytes[..length]);
            }
        }
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(longest.get(), H::MAX_BYTES, "the longest header");
}

/// Asserts that [`Wire::LAYOUT`] describes exactly these bytes of a header.
fn follows_layout<H: Wire + Debug>(header: &H, bytes: &[u8]) -> Result<(), TestCaseError> {
    let text = format!("{header:?}");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    if let Layout::Choice(messages) = H::LAYOUT {
        prop_assert_eq!(words.clone().next(), Some(messages[usize::from(bytes[0])].name));
    }
    let mut walk = Walk { bytes, words };
    walk.value(&H::LAYOUT)?;
    prop_assert_eq!(walk.bytes.len(), 0, "bytes without a layout");
    Ok(())
}

/// Reads bytes by a layout, and the header's debug text beside them: it has the same names and numbers in the same order.
struct Walk<'a, W> {
    bytes: &'a [u8],
    words: W,
}

impl<'a, W: Iterator<Item = &'a str>> Walk<'a, W> {
    fn value(&mut self, layout: &Layout) -> Result<(), TestCaseError> {
        match layout {
            Layout::Number { bytes, unit } => {
                prop_assert!([1, 2, 4, 8].contains(bytes), "a number of {} bytes", bytes);
                let number = self.number(*bytes)?;
                if *unit == WireUnit::Plain { self.word(&number.to_string()) } else { Ok(()) }
            }
            Layout::Flag => {
                let flag = self.index(&["false", "true"])?;
                self.word(flag)
            }
            Layout::List(item) => (0..self.number(1)?).try_for_each(|_| self.value(item)),
            Layout::Maybe(value) => {
                let maybe = self.index(&[None, Some(value)])?;
                self.word(if maybe.is_some() { "Some" } else { "None" })?;
                maybe.map_or(Ok(()), |value| self.value(value))
            }
            Layout::Fields(fields) => fields.iter().try_for_each(|field| self.value(&field.layout)),
            Layout::Choice(messages) => {
                let Message { name, fields } = self.index(messages)?;
                self.word(name)?;
                self.value(&Layout::Fields(fields))
            }
        }
    }

    fn number(&mut self, bytes: u8) -> Result<u64, TestCaseError> {
        let (number, rest) = self.bytes.split_at_checked(bytes.into()).ok_or_else(|| TestCaseError::fail("too few bytes"))?;
        self.bytes = rest;
        Ok(number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// What a byte is the index of.
    fn index<T: Copy>(&mut self, of: &[T]) -> Result<T, TestCaseError> {
        let index = self.number(1)?;
        of.get(index as usize).copied().ok_or_else(|| TestCaseError::fail(format!("index {index} of {}", of.len())))
    }

    fn word(&mut self, word: &str) -> Result<(), TestCaseError> {
        prop_assert!(self.words.any(|it| it == word), "the header's text has no {} here", word);
        Ok(())
    }
}
