//! Flow-size tables as text, in the forms that other tools write.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;
use crate::cdf::{BYTES_MAX, Cdf, Point};
use crate::error::shown;

/// Payload of the packets that packet tables count.
const PACKET_BYTES: f64 = 1460.0;

/// The meaning of the columns of a flow-size table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Bytes, then the cumulative percentage up to 100.
    BytesPercent,
    /// Bytes, then the cumulative probability up to 1.
    BytesProbability,
    /// Packets of 1460 B, then the cumulative probability up to 1. Interpolated in bytes.
    PacketsProbability,
    /// The three columns of ns-2's empirical random variable, sizes in bytes; the middle column is ignored.
    Ns2Bytes,
    /// The three columns of ns-2's empirical random variable, sizes in packets of 1460 B; the middle column is ignored.
    Ns2Packets,
}

impl Dialect {
    fn columns(self) -> usize {
        if matches!(self, Dialect::Ns2Bytes | Dialect::Ns2Packets) { 3 } else { 2 }
    }
    fn size_unit(self) -> f64 {
        if matches!(self, Dialect::PacketsProbability | Dialect::Ns2Packets) { PACKET_BYTES } else { 1.0 }
    }
    fn whole(self) -> f64 {
        if self == Dialect::BytesPercent { 100.0 } else { 1.0 }
    }
}

/// A table before its columns have a meaning.
struct Content {
    /// The dialect that the column names say, and their line.
    named: Option<(usize, Dialect)>,
    rows: Vec<Row>,
}

struct Row {
    line: usize,
    cells: Vec<f64>,
}

/// Reads a flow-size table: rows of numbers separated by commas or blanks, `#` comments, and possibly a first line that
/// names the columns: `bytes` or `packets`, then `cumulative_probability` or `cumulative_percent`.
///
/// The dialect is the given one, or the one that the column names say, or percent if there are two columns and the last row says
/// 100. Anything else is ambiguous, since sizes in packets look like sizes in bytes, and is an error.
///
/// # Errors
/// With `file` and the line: no number where one belongs, a negative size, sizes or probabilities that fall, a last
/// probability that is not 1 (or 100 %), an unknown or contradictory dialect.
pub fn parse(text: &str, dialect: Option<Dialect>, file: &str) -> Result<Cdf, ScenarioError> {
    let Content { named, rows } = read_content(text, file)?;
    let Some(last) = rows.last() else {
        return Err(ScenarioError::at_place(file, "the table has no rows"));
    };
    let dialect = match (dialect, named) {
        (Some(given), Some((line, named))) if given != named => {
            let message = format!("the column names mean {}, the scenario says {}", name(named), name(given));
            return Err(ScenarioError::at_line(file, line, message));
        }
        (Some(dialect), _) | (None, Some((_, dialect))) => dialect,
        (None, None) => detect(last, file)?,
    };
    let points = rows.iter().map(|row| point(row, dialect, file)).collect::<Result<Vec<Point>, ScenarioError>>()?;
    if points[points.len() - 1].probability != 1.0 {
        let found = number(last.cells[last.cells.len() - 1]);
        let message = format!("the last cumulative value is {found}, not {}", dialect.whole());
        return Err(ScenarioError::at_line(file, last.line, message));
    }
    Cdf::new(points).map_err(|error| ScenarioError::at_line(file, rows[error.point].line, error.message))
}

fn read_content(text: &str, file: &str) -> Result<Content, ScenarioError> {
    let (mut named, mut rows) = (None, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|cell| !cell.is_empty()).collect();
        if cells.first().is_none_or(|cell| cell.starts_with('#')) {
            continue;
        }
        let line = index + 1;
        if rows.is_empty() && named.is_none() && cells.iter().all(|cell| f64::from_str(cell).is_err()) {
            named = Some((line, by_column_names(&cells).ok_or_else(|| unknown_columns(&cells, file, line))?));
            continue;
        }
        let number = |cell: &&str| {
            f64::from_str(cell)
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| ScenarioError::at_line(file, line, format!("\"{}\" is not a number", shown(cell))))
        };
        rows.push(Row { line, cells: cells.iter().map(number).collect::<Result<Vec<f64>, ScenarioError>>()? });
    }
    Ok(Content { named, rows })
}

fn by_column_names(cells: &[&str]) -> Option<Dialect> {
    match cells {
        ["bytes", "cumulative_probability"] => Some(Dialect::BytesProbability),
        ["bytes", "cumulative_percent"] => Some(Dialect::BytesPercent),
        ["packets", "cumulative_probability"] => Some(Dialect::PacketsProbability),
        _ => None,
    }
}

fn unknown_columns(cells: &[&str], file: &str, line: usize) -> ScenarioError {
    let message = format!(
        "unknown columns \"{}\"; give bytes,cumulative_probability or bytes,cumulative_percent or packets,cumulative_probability",
        shown(&cells.join(","))
    );
    ScenarioError::at_line(file, line, message)
}

fn detect(last: &Row, file: &str) -> Result<Dialect, ScenarioError> {
    let choices = match last.cells[..] {
        [_, 100.0] => return Ok(Dialect::BytesPercent),
        [_, _] => "bytes_probability or packets_probability",
        _ => "ns2_bytes or ns2_packets",
    };
    let message =
        format!("the table does not say whether its sizes are bytes or packets of 1460 B; name the dialect: {choices}");
    Err(ScenarioError::at_line(file, last.line, message))
}

fn point(row: &Row, dialect: Dialect, file: &str) -> Result<Point, ScenarioError> {
    let fault = |message| Err(ScenarioError::at_line(file, row.line, message));
    if row.cells.len() != dialect.columns() {
        return fault(format!("{} columns; {} has {}", row.cells.len(), name(dialect), dialect.columns()));
    }
    let (size, cumulative) = (row.cells[0], row.cells[row.cells.len() - 1]);
    if size < 0.0 {
        return fault(format!("the size {} is negative", number(size)));
    }
    // Compare before rounding to whole bytes, which would turn a number that is too large into the largest one.
    let bytes = size * dialect.size_unit();
    if bytes > BYTES_MAX as f64 {
        return fault(format!("a flow of {} bytes is too large; the limit is {BYTES_MAX}", number(bytes)));
    }
    let whole = dialect.whole();
    if !(0.0..=whole).contains(&cumulative) {
        return fault(format!("the cumulative value {} is outside 0 to {whole}", number(cumulative)));
    }
    // Tables printed with few digits may miss the end by a rounding error, but not by more.
    let probability = if whole - cumulative < 1e-9 * whole { 1.0 } else { cumulative / whole };
    Ok(Point { bytes: bytes.round() as u64, probability })
}

/// A number as an error shows it: without the hundreds of zeros of the largest ones.
fn number(value: f64) -> String {
    if value.abs() >= 1e16 { format!("{value:e}") } else { value.to_string() }
}

/// The dialect's name in scenarios.
fn name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::BytesPercent => "bytes_percent",
        Dialect::BytesProbability => "bytes_probability",
        Dialect::PacketsProbability => "packets_probability",
        Dialect::Ns2Bytes => "ns2_bytes",
        Dialect::Ns2Packets => "ns2_packets",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str, dialect: Option<Dialect>) -> Vec<(u64, f64)> {
        parse(text, dialect, "t.csv").unwrap().points().iter().map(|point| (point.bytes, point.probability)).collect()
    }
    fn error(text: &str, dialect: Option<Dialect>) -> String {
        parse(text, dialect, "t.csv").unwrap_err().to_string()
    }

    #[test]
    fn five_dialects_of_the_same_table() {
        let expected = vec![(2920, 0.25), (14_600, 1.0)];
        assert_eq!(sizes("2920 25\n14600 100\n", None), expected);
        assert_eq!(sizes("2920,25\n14600,100\n", Some(Dialect::BytesPercent)), expected);
        assert_eq!(sizes("# c\n\nbytes,cumulative_probability\n2920, 0.25\n14600, 1\n", None), expected);
        assert_eq!(sizes("2920\t0.25\n14600\t1\n", Some(Dialect::BytesProbability)), expected);
        assert_eq!(sizes("2 0.25\n10 1\n", Some(Dialect::PacketsProbability)), expected);
        assert_eq!(sizes("packets cumulative_probability\n2 0.25\n10 1\n", None), expected);
        assert_eq!(sizes("2 1 0.25\n10 1 1\n", Some(Dialect::Ns2Packets)), expected);
        assert_eq!(sizes("2920 1 0.25\n14600 1 1\n", Some(Dialect::Ns2Bytes)), expected);
    }

    #[test]
    fn errors_name_file_and_line() {
        let cases = [
            error("2920 0.25\n14600 1\n", None),
            error("2920 1 0.25\n14600 1 1\n", None),
            error("2920 0.25\n14600 1\n", Some(Dialect::BytesPercent)),
            error("bytes,cumulative_probability\n2 0.2\n10 1\n", Some(Dialect::PacketsProbability)),
            error("size,cdf\n2 0.2\n10 1\n", None),
            error("1 0.5\n2 0.4\n3 1\n", Some(Dialect::BytesProbability)),
            error("# three\n1 0.5\n3 0.6\n2 1\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n2 0.9\n", Some(Dialect::BytesProbability)),
            error("-1 0.5\n2 1\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n2 abc\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n2 nan\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n2 0.7 1\n", Some(Dialect::BytesProbability)),
            error("1 50\n2 100\n", Some(Dialect::BytesProbability)),
            error("# nothing\n", None),
            error("1 0.5\n1e300 1\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n1e13 1\n", Some(Dialect::PacketsProbability)),
            error("1 0.5\n-1e300 1\n", Some(Dialect::BytesProbability)),
            error("1 0.5\n2 1e300\n", Some(Dialect::BytesProbability)),
            error("nan nan\n2 1\n", Some(Dialect::BytesProbability)),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
        t.csv:2: the table does not say whether its sizes are bytes or packets of 1460 B; name the dialect: bytes_probability or packets_probability
        t.csv:2: the table does not say whether its sizes are bytes or packets of 1460 B; name the dialect: ns2_bytes or ns2_packets
        t.csv:2: the last cumulative value is 1, not 100
        t.csv:1: the column names mean bytes_probability, the scenario says packets_probability
        t.csv:1: unknown columns "size,cdf"; give bytes,cumulative_probability or bytes,cumulative_percent or packets,cumulative_probability
        t.csv:2: the cumulative probability falls from 0.5 to 0.4; it must not fall
        t.csv:4: size 2 follows the larger 3; rows ascend
        t.csv:2: the last cumulative value is 0.9, not 1
        t.csv:1: the size -1 is negative
        t.csv:2: "abc" is not a number
        t.csv:2: "nan" is not a number
        t.csv:2: 3 columns; bytes_probability has 2
        t.csv:1: the cumulative value 50 is outside 0 to 1
        t.csv: the table has no rows
        t.csv:2: a flow of 1e300 bytes is too large; the limit is 1000000000000000
        t.csv:2: a flow of 1.46e16 bytes is too large; the limit is 1000000000000000
        t.csv:2: the size -1e300 is negative
        t.csv:2: the cumulative value 1e300 is outside 0 to 1
        t.csv:1: "nan" is not a number
        "#);
    }
}
