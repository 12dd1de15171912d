//! Quantities as text: a number and a unit, such as `"45us"`, `"10Gb/s"`, `"36kB"`. kB is 1000 B, KiB is 1024 B.
//!
//! Arithmetic is decimal and exact: a text that is no whole number of picoseconds, bits per second or bytes is refused, and what is
//! displayed reads back as the same value. A bare number is refused, because the reader could not know its unit.

use std::fmt;
use std::str::FromStr;

use crate::{Bytes, Duration, Rate, Time};

/// Why a text is no quantity: what was found, and an example of what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuantityError(String);

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for QuantityError {}

/// One kind of quantity.
struct Kind {
    /// With its article.
    name: &'static str,
    /// The name of the base unit, in the plural.
    base: &'static str,
    example: &'static str,
    /// The decimal units, each with its size in the base unit. They ascend from the base unit, and are the ones that are displayed.
    decimal: &'static [(&'static str, u64)],
    /// Other units and spellings that are read.
    also: &'static [(&'static str, u64)],
    /// Units that are refused, and what to write instead.
    hints: &'static [(&'static str, &'static str)],
}

const DURATION: Kind = Kind {
    name: "a duration",
    base: "picoseconds",
    example: "45us",
    decimal: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    also: &[("µs", 1_000_000), ("μs", 1_000_000)],
    hints: &[],
};
const RATE: Kind = Kind {
    name: "a rate",
    base: "bits per second",
    example: "10Gb/s",
    decimal: &[("b/s", 1), ("kb/s", 1_000), ("Mb/s", 1_000_000), ("Gb/s", 1_000_000_000), ("Tb/s", 1_000_000_000_000)],
    also: &[("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)],
    hints: &[("MB/s", "rates are in bits"), ("GB/s", "rates are in bits")],
};
const BYTES: Kind = Kind {
    name: "a number of bytes",
    base: "bytes",
    example: "36kB",
    decimal: &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)],
    also: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    hints: &[("KB", "say kB for 1000 B or KiB for 1024 B"), ("K", "say kB for 1000 B or KiB for 1024 B")],
};

impl Kind {
    /// Reads a value in the base unit.
    fn parse(&self, text: &str) -> Result<u64, String> {
        let trimmed = text.trim();
        let number_ends = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..number_ends], trimmed[number_ends..].trim_start());
        let (mantissa, scale) = decimal(number).ok_or_else(|| {
            format!("\"{text}\" is not {}: expected a number and a unit, such as \"{}\"", self.name, self.example)
        })?;
        if unit.is_empty() {
            return Err(self.unitless(trimmed));
        }
        let size =
            self.units().find(|(name, _)| *name == unit).map(|(_, size)| *size).ok_or_else(|| self.unknown(text, unit))?;
        let scaled = mantissa.checked_mul(u128::from(size)).ok_or_else(|| format!("\"{text}\" is too large"))?;
        if !scaled.is_multiple_of(scale) {
            return Err(format!("\"{text}\" is not a whole number of {}", self.base));
        }
        u64::try_from(scaled / scale).map_err(|_| format!("\"{text}\" is too large"))
    }

    /// Every unit that is read.
    fn units(&self) -> impl Iterator<Item = &(&'static str, u64)> {
        self.decimal.iter().chain(self.also)
    }

    /// The message for a number that lacks its unit.
    fn unitless(&self, number: &str) -> String {
        format!("\"{number}\" has no unit, and this is {}: say the unit, for example \"{}\"", self.name, self.example)
    }

    /// The message for an unknown unit.
    fn unknown(&self, text: &str, unit: &str) -> String {
        let hint = self.hints.iter().find(|(name, _)| *name == unit).map_or(String::new(), |(_, hint)| format!(" ({hint})"));
        let known: Vec<&str> = self.units().map(|(name, _)| *name).filter(|name| name.is_ascii()).collect();
        format!(
            "\"{text}\": \"{unit}\" is not a unit of {}{hint}; use one of {}, for example \"{}\"",
            self.name,
            known.join(", "),
            self.example
        )
    }

    /// Writes all decimals, in the largest unit that leaves at least one before the point.
    fn write(&self, f: &mut fmt::Formatter<'_>, value: u64) -> fmt::Result {
        let (name, size) = self.decimal.iter().rfind(|(_, size)| *size <= value).unwrap_or(&self.decimal[0]);
        let (whole, part) = (value / size, value % size);
        if part == 0 {
            return write!(f, "{whole}{name}");
        }
        let digits = size.ilog10() as usize;
        write!(f, "{whole}.{}{name}", format!("{part:0digits$}").trim_end_matches('0'))
    }
}

/// Reads `digits` or `digits.digits` as (all digits, the power of ten to divide them by).
fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let whole: u128 = whole.parse().ok()?;
    Some((whole.checked_mul(scale)?.checked_add(part.parse().ok()?)?, scale))
}

macro_rules! text {
    ($type:ident, $kind:ident, $new:expr, $get:expr) => {
        impl FromStr for $type {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<$type, QuantityError> {
                $kind.parse(text).map($new).map_err(QuantityError)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.write(f, $get(*self))
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
text!(Duration, DURATION, Duration::from_ps, Duration::as_ps);
text!(Rate, RATE, Rate::from_bps, Rate::as_bps);
text!(Bytes, BYTES, Bytes::new, Bytes::get);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DURATION.write(f, self.as_ps())
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str) -> Result<Duration, QuantityError> {
        text.parse()
    }
    fn rate(text: &str) -> Result<Rate, QuantityError> {
        text.parse()
    }
    fn bytes(text: &str) -> Result<Bytes, QuantityError> {
        text.parse()
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(duration("0.2us"), Ok(Duration::from_ps(200_000)));
        assert_eq!(duration("0.000001us"), Ok(Duration::from_ps(1)));
        assert_eq!(duration("45 us"), Ok(Duration::from_us(45)));
        assert_eq!(duration("45µs"), Ok(Duration::from_us(45)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(rate("10Gb/s"), Ok(Rate::from_gbps(10)));
        assert_eq!(rate("2.5Gbps"), Ok(Rate::from_bps(2_500_000_000)));
        assert_eq!(bytes("36kB"), Ok(Bytes::new(36_000)));
        assert_eq!(bytes("36KiB"), Ok(Bytes::new(36_864)));
        assert_eq!(bytes("36.864kB"), Ok(Bytes::new(36_864)));
        assert_eq!(bytes("1500B"), Ok(Bytes::new(1500)));
        assert_eq!(bytes("0.5KiB"), Ok(Bytes::new(512)));
        assert_eq!(Bytes::new(36_864).to_string(), "36.864kB");
        assert_eq!(Duration::from_ps(1_000_001).to_string(), "1.000001us");
        assert_eq!(Duration::ZERO.to_string(), "0ps");
    }

    #[test]
    fn errors_say_what_was_found_and_what_would_be_right() {
        let errors = [
            duration("45").unwrap_err(),
            duration("us").unwrap_err(),
            duration("-3us").unwrap_err(),
            duration("0.3ps").unwrap_err(),
            duration("300000000s").unwrap_err(),
            rate("10GB/s").unwrap_err(),
            bytes("36KB").unwrap_err(),
            bytes("1.2.3kB").unwrap_err(),
        ];
        let expected = [
            r#""45" has no unit, and this is a duration: say the unit, for example "45us""#,
            r#""us" is not a duration: expected a number and a unit, such as "45us""#,
            r#""-3us" is not a duration: expected a number and a unit, such as "45us""#,
            r#""0.3ps" is not a whole number of picoseconds"#,
            r#""300000000s" is too large"#,
            r#""10GB/s": "GB/s" is not a unit of a rate (rates are in bits); use one of b/s, kb/s, Mb/s, Gb/s, Tb/s, bps, kbps, Mbps, Gbps, Tbps, for example "10Gb/s""#,
            r#""36KB": "KB" is not a unit of a number of bytes (say kB for 1000 B or KiB for 1024 B); use one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, for example "36kB""#,
            r#""1.2.3kB" is not a number of bytes: expected a number and a unit, such as "36kB""#,
        ];
        assert_eq!(errors.each_ref().map(|error| error.0.as_str()), expected);
    }
}
