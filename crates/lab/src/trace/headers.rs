//! What is known of headers from their layouts.

use flowloom_core::Layout;

/// The name of the message that an encoded header is; the innermost one of messages in messages. It is empty for a header without messages.
pub(super) fn message(layout: &Layout, bytes: &[u8]) -> &'static str {
    let Layout::Choice(messages) = layout else { return "" };
    let Some((index, rest)) = bytes.split_first() else { return "" };
    let Some(found) = messages.get(usize::from(*index)) else { return "" };
    match found.fields {
        [only] if matches!(only.layout, Layout::Choice(_)) => message(&only.layout, rest),
        _ => found.name,
    }
}
