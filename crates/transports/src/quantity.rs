//! Quantities in configurations: text with a unit, such as `"45us"`, `"10Gb/s"`, `"36kB"`. [`flowloom_core`] parses and formats them;
//! this module connects that to serde and to JSON schemas.
//!
//! A field of a configuration is either a [`Quantity`], or has a plain type and names the serde module of that type:
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
//! An optional field names `quantity::duration::option`, and so on, and has `#[serde(default)]`. Every field has a range, which is
//! checked when a scenario is read and which the reference shows: `extend("x-min" = "1us", "x-max" = "100s")` beside `schema_with`.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use flowloom_core::{Bytes, Duration, QuantityError, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A type whose values are written with a unit.
pub trait Unit: Copy + Display + FromStr<Err = QuantityError> {
    /// The name of one value, with its article.
    const NAME: &'static str;
    /// The `format` of these values in a JSON schema, by which they can be checked and described without the Rust type.
    const FORMAT: &'static str;
    /// An example of a value as text.
    const EXAMPLE: &'static str;
}

impl Unit for Duration {
    const NAME: &'static str = "a duration";
    const FORMAT: &'static str = "quantity-duration";
    const EXAMPLE: &'static str = "45us";
}
impl Unit for Rate {
    const NAME: &'static str = "a rate";
    const FORMAT: &'static str = "quantity-rate";
    const EXAMPLE: &'static str = "10Gb/s";
}
impl Unit for Bytes {
    const NAME: &'static str = "a number of bytes";
    const FORMAT: &'static str = "quantity-bytes";
    const EXAMPLE: &'static str = "36kB";
}

/// A [`Duration`], a [`Rate`] or [`Bytes`], read and written with its unit: `"200ns"`, `"10Gb/s"`, `"36kB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Quantity<T>(pub T);

impl<T: Unit> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: Unit> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity<T>, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Quantity)
    }
}

impl<T: Unit> JsonSchema for Quantity<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::FORMAT.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": T::FORMAT, "examples": [T::EXAMPLE] })
    }
}

/// Reads a text. For a bare number, the error says that the unit is missing.
struct Reader<T>(PhantomData<T>);

impl<T: Unit> Visitor<'_> for Reader<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, such as \"{}\"", T::NAME, T::EXAMPLE)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    // A number without a unit is parsed as a text, so that the error asks for the unit.
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// The serde module of one type, for `#[serde(with = …)]`.
macro_rules! with {
    ($module:ident, $type:ident) => {
        #[doc = concat!("[`", stringify!($type), "`] as text, for `#[serde(with = …)]`.")]
        pub mod $module {
            use super::*;
            /// The schema, for `#[schemars(schema_with = …)]`.
            pub fn schema(generator: &mut SchemaGenerator) -> Schema {
                Quantity::<$type>::json_schema(generator)
            }
            /// Writes a value.
            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                Quantity(*value).serialize(serializer)
            }
            /// Reads a value.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                Quantity::deserialize(deserializer).map(|quantity| quantity.0)
            }
            /// The same for an optional value.
            pub mod option {
                use super::*;
                /// Writes an optional value that is present.
                pub fn serialize<S: Serializer>(value: &Option<$type>, serializer: S) -> Result<S::Ok, S::Error> {
                    value.map(Quantity).serialize(serializer)
                }
                /// Reads an optional value that is present.
                pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$type>, D::Error> {
                    super::deserialize(deserializer).map(Some)
                }
            }
            /// The same for a list.
            pub mod list {
                use super::*;
                /// The schema, for `#[schemars(schema_with = …)]`.
                pub fn schema(generator: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "array", "items": super::schema(generator) })
                }
                /// Writes a list.
                pub fn serialize<S: Serializer>(values: &[$type], serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_seq(values.iter().copied().map(Quantity))
                }
                /// Reads a list.
                pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<$type>, D::Error> {
                    let list = Vec::<Quantity<$type>>::deserialize(deserializer)?;
                    Ok(list.into_iter().map(|quantity| quantity.0).collect())
                }
            }
        }
    };
}
with!(duration, Duration);
with!(rate, Rate);
with!(bytes, Bytes);

/// The schema of a list of sizes from 1 B to `most`.
pub fn sizes_schema(generator: &mut SchemaGenerator, most: &str) -> Schema {
    let mut one = bytes::schema(generator);
    one.insert("x-min".to_owned(), "1B".into());
    one.insert("x-max".to_owned(), most.into());
    json_schema!({ "type": "array", "items": one })
}

/// The schema of the sizes that separate priorities, for `#[schemars(schema_with = …)]`.
pub fn cutoffs_schema(generator: &mut SchemaGenerator) -> Schema {
    sizes_schema(generator, "1000TB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_reads_back(value in prop_oneof![any::<u64>(), 0_u64..10_000, (0_u64..1000).prop_map(|n| n * 1_000_000)]) {
            let (span, rate, bytes) = (Duration::from_ps(value), Rate::from_bps(value), Bytes::new(value));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }

        #[test]
        fn no_text_breaks_the_parser(text in "[0-9.]{0,45}[ a-zA-Zµ/]{0,5}|\\PC{0,10}") {
            let _ = (text.parse::<Duration>(), text.parse::<Rate>(), text.parse::<Bytes>());
        }
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
