//! Quantities in configurations: text with a unit, such as `"45us"`, `"10Gb/s"`, `"36kB"`. kB is 1000 B, KiB is 1024 B.
//!
//! Arithmetic is decimal and exact: a text that is no whole number of picoseconds, bits per second or bytes is refused, and what is
//! printed reads back as the same value. A bare number is refused, because the reader could not know its unit.
//!
//! For a field of a configuration:
//!
//! ```
//! # use flowloom_core::Duration;
//! # use flowloom_transports::quantity;
//! #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! struct Config {
//!     #[serde(with = "quantity::duration")]
//!     #[schemars(schema_with = "quantity::duration::schema")]
//!     rto: Duration,
//! }
//! let config: Config = toml::from_str(r#"rto = "0.2us""#).unwrap();
//! assert_eq!(config.rto, Duration::from_ns(200));
//! assert_eq!(toml::to_string(&config).unwrap(), "rto = \"200ns\"\n");
//! assert!(toml::from_str::<Config>("rto = 45").is_err_and(|error| error.to_string().contains("say the unit")));
//! ```
//!
//! For an optional field, `quantity::duration::option` and so on, with `#[serde(default)]` beside it. Every field has a range, which the
//! scenario's reader enforces and the reference shows: `extend("x-min" = "1us", "x-max" = "100s")` beside `schema_with`.

use flowloom_core::{Bytes, Duration, Rate};
use schemars::{Schema, SchemaGenerator, json_schema};

/// One kind of quantity.
struct Kind {
    /// With its article.
    name: &'static str,
    /// The `format` that marks it in a JSON schema, so that it can be checked and described without its type.
    format: &'static str,
    /// What a whole number is counted in.
    base: &'static str,
    example: &'static str,
    /// Every unit that is read, with its size in the base unit. The first is the base unit; the decimal ones come in ascending
    /// order and are the ones that are printed.
    decimal: &'static [(&'static str, u64)],
    /// Other spellings and sizes.
    also: &'static [(&'static str, u64)],
    /// Units that are refused, and what to do.
    hints: &'static [(&'static str, &'static str)],
}

const DURATION: Kind = Kind {
    name: "a duration",
    format: "quantity-duration",
    base: "picoseconds",
    example: "45us",
    decimal: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    also: &[("µs", 1_000_000), ("μs", 1_000_000)],
    hints: &[],
};
const RATE: Kind = Kind {
    name: "a rate",
    format: "quantity-rate",
    base: "bits per second",
    example: "10Gb/s",
    decimal: &[("b/s", 1), ("kb/s", 1_000), ("Mb/s", 1_000_000), ("Gb/s", 1_000_000_000), ("Tb/s", 1_000_000_000_000)],
    also: &[("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)],
    hints: &[("MB/s", "rates are in bits"), ("GB/s", "rates are in bits")],
};
const BYTES: Kind = Kind {
    name: "a number of bytes",
    format: "quantity-bytes",
    base: "bytes",
    example: "36kB",
    decimal: &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)],
    also: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    hints: &[("KB", "say kB for 1000 B or KiB for 1024 B"), ("K", "say kB for 1000 B or KiB for 1024 B")],
};

impl Kind {
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

    fn units(&self) -> impl Iterator<Item = &(&'static str, u64)> {
        self.decimal.iter().chain(self.also)
    }

    fn unitless(&self, number: &str) -> String {
        format!("\"{number}\" has no unit, and this is {}: say the unit, for example \"{}\"", self.name, self.example)
    }

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

    /// The largest unit that leaves at least one before the point, and all decimals.
    fn print(&self, value: u64) -> String {
        let (name, size) = self.decimal.iter().rfind(|(_, size)| *size <= value).unwrap_or(&self.decimal[0]);
        let (whole, part) = (value / size, value % size);
        if part == 0 {
            return format!("{whole}{name}");
        }
        let digits = size.ilog10() as usize;
        format!("{whole}.{}{name}", format!("{part:0digits$}").trim_end_matches('0'))
    }
}

/// `digits` or `digits.digits` as (all digits, the power of ten to divide them by).
fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let whole: u128 = whole.parse().ok()?;
    Some((whole.checked_mul(scale)?.checked_add(part.parse().ok()?)?, scale))
}

/// Accepts a text, and explains to whoever wrote a bare number what is missing.
struct Reader(&'static Kind);

impl serde::de::Visitor<'_> for Reader {
    type Value = u64;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, such as \"{}\"", self.0.name, self.0.example)
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        self.0.parse(text).map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        Err(E::custom(self.0.unitless(&number.to_string())))
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u64, E> {
        Err(E::custom(self.0.unitless(&number.to_string())))
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<u64, E> {
        Err(E::custom(self.0.unitless(&number.to_string())))
    }
}

/// The functions of one kind of quantity, and its module for `#[serde(with = …)]`.
macro_rules! quantity {
    ($type:ident, $kind:ident, $module:ident, $parse:ident, $print:ident, $new:expr, $get:expr) => {
        #[doc = concat!("Reads a [`", stringify!($type), "`]. The error says what was found and gives an example of what would be right.")]
        pub fn $parse(text: &str) -> Result<$type, String> {
            $kind.parse(text).map($new)
        }
        #[doc = concat!("Writes a [`", stringify!($type), "`] exactly, in its largest fitting decimal unit.")]
        pub fn $print(value: $type) -> String {
            $kind.print($get(value))
        }
        #[doc = concat!("A [`", stringify!($type), "`] as text, for `#[serde(with = …)]`.")]
        pub mod $module {
            use super::*;
            /// The `format` of its schema.
            pub const FORMAT: &str = $kind.format;
            /// Its schema, for `#[schemars(schema_with = …)]`.
            pub fn schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": FORMAT, "examples": [$kind.example] })
            }
            /// Writes it.
            pub fn serialize<S: serde::Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$print(*value))
            }
            /// Reads it.
            pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                deserializer.deserialize_any(Reader(&$kind)).map($new)
            }
            /// The same where it may be absent.
            pub mod option {
                use super::*;
                /// Writes it.
                pub fn serialize<S: serde::Serializer>(value: &Option<$type>, serializer: S) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => super::serialize(value, serializer),
                        None => serializer.serialize_none(),
                    }
                }
                /// Reads it.
                pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<$type>, D::Error> {
                    super::deserialize(deserializer).map(Some)
                }
            }
            /// A list of them.
            pub mod list {
                use super::*;
                /// Its schema, for `#[schemars(schema_with = …)]`.
                pub fn schema(generator: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "array", "items": super::schema(generator) })
                }
                /// Writes it.
                pub fn serialize<S: serde::Serializer>(values: &[$type], serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_seq(values.iter().map(|value| $print(*value)))
                }
                /// Reads it.
                pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<$type>, D::Error> {
                    #[derive(serde::Deserialize)]
                    struct One(#[serde(with = "super")] $type);
                    let list: Vec<One> = serde::Deserialize::deserialize(deserializer)?;
                    Ok(list.into_iter().map(|one| one.0).collect())
                }
            }
        }
    };
}

quantity!(Duration, DURATION, duration, parse_duration, print_duration, Duration::from_ps, Duration::as_ps);
quantity!(Rate, RATE, rate, parse_rate, print_rate, Rate::from_bps, Rate::as_bps);
quantity!(Bytes, BYTES, bytes, parse_bytes, print_bytes, Bytes::new, Bytes::get);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_reads_back(value in prop_oneof![any::<u64>(), 0_u64..10_000, (0_u64..1000).prop_map(|n| n * 1_000_000)]) {
            let (span, rate, bytes) = (Duration::from_ps(value), Rate::from_bps(value), Bytes::new(value));
            prop_assert_eq!(parse_duration(&print_duration(span)), Ok(span));
            prop_assert_eq!(parse_rate(&print_rate(rate)), Ok(rate));
            prop_assert_eq!(parse_bytes(&print_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_breaks_the_parser(text in "[0-9.]{0,45}[ a-zA-Zµ/]{0,5}|\\PC{0,10}") {
            let _ = (parse_duration(&text), parse_rate(&text), parse_bytes(&text));
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse_duration("0.2us"), Ok(Duration::from_ps(200_000)));
        assert_eq!(parse_duration("0.000001us"), Ok(Duration::from_ps(1)));
        assert_eq!(parse_duration("45 us"), Ok(Duration::from_us(45)));
        assert_eq!(parse_duration("45µs"), Ok(Duration::from_us(45)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_rate("10Gb/s"), Ok(Rate::from_gbps(10)));
        assert_eq!(parse_rate("2.5Gbps"), Ok(Rate::from_bps(2_500_000_000)));
        assert_eq!(parse_bytes("36kB"), Ok(Bytes::new(36_000)));
        assert_eq!(parse_bytes("36KiB"), Ok(Bytes::new(36_864)));
        assert_eq!(parse_bytes("36.864kB"), Ok(Bytes::new(36_864)));
        assert_eq!(parse_bytes("1500B"), Ok(Bytes::new(1500)));
        assert_eq!(parse_bytes("0.5KiB"), Ok(Bytes::new(512)));
        assert_eq!(print_bytes(Bytes::new(36_864)), "36.864kB");
        assert_eq!(print_duration(Duration::from_ps(1_000_001)), "1.000001us");
        assert_eq!(print_duration(Duration::ZERO), "0ps");
    }

    #[test]
    fn errors_say_what_was_found_and_what_would_be_right() {
        let errors = [
            parse_duration("45").unwrap_err(),
            parse_duration("us").unwrap_err(),
            parse_duration("-3us").unwrap_err(),
            parse_duration("0.3ps").unwrap_err(),
            parse_duration("300000000s").unwrap_err(),
            parse_rate("10GB/s").unwrap_err(),
            parse_bytes("36KB").unwrap_err(),
            parse_bytes("1.2.3kB").unwrap_err(),
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
        assert_eq!(errors.each_ref().map(String::as_str), expected);
    }

    #[test]
    fn lists_are_written_and_read_item_by_item() {
        #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Config {
            #[serde(with = "bytes::list")]
            limits: Vec<Bytes>,
        }
        let config: Config = toml::from_str("limits = [\"1.5kB\", \"1KiB\"]").unwrap();
        assert_eq!(config.limits, [1500, 1024].map(Bytes::new));
        assert_eq!(toml::to_string(&config).unwrap(), "limits = [\"1.5kB\", \"1.024kB\"]\n");
        assert!(toml::from_str::<Config>("limits = [1500]").unwrap_err().to_string().contains("say the unit"));
    }

    #[test]
    fn optional_fields_may_be_absent() {
        #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Config {
            #[serde(with = "bytes::option", default, skip_serializing_if = "Option::is_none")]
            limit: Option<Bytes>,
        }
        let present: Config = toml::from_str("limit = \"1.5kB\"").unwrap();
        assert_eq!(present.limit, Some(Bytes::new(1500)));
        assert_eq!(toml::to_string(&present).unwrap(), "limit = \"1.5kB\"\n");
        let absent: Config = toml::from_str("").unwrap();
        assert_eq!(absent.limit, None);
        assert_eq!(toml::to_string(&absent).unwrap(), "");
        assert!(toml::from_str::<Config>("limit = 1500").unwrap_err().to_string().contains("say the unit"));
    }
}
