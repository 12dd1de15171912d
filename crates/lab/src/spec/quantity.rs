//! A quantity in a scenario: text with a unit, which the schema names so that it can be checked before anything is read.

use std::borrow::Cow;

use flowloom_core::{Bytes, Duration, Rate};
use flowloom_transports::quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A [`Duration`], a [`Rate`] or [`Bytes`], written with its unit: `"200ns"`, `"10Gb/s"`, `"36kB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Quantity<T>(pub T);

/// What can be written with a unit.
pub trait Unit: Copy {
    /// The schema's `format`.
    const FORMAT: &'static str;
    /// How it may look.
    const EXAMPLE: &'static str;
    /// Reads it; the error says what would be right.
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it so that it reads back the same.
    fn print(self) -> String;
}

macro_rules! unit {
    ($type:ident, $module:ident, $example:literal, $parse:ident, $print:ident) => {
        impl Unit for $type {
            const FORMAT: &'static str = quantity::$module::FORMAT;
            const EXAMPLE: &'static str = $example;
            fn parse(text: &str) -> Result<$type, String> {
                quantity::$parse(text)
            }
            fn print(self) -> String {
                quantity::$print(self)
            }
        }
    };
}
unit!(Duration, duration, "200ns", parse_duration, print_duration);
unit!(Rate, rate, "10Gb/s", parse_rate, print_rate);
unit!(Bytes, bytes, "36kB", parse_bytes, print_bytes);

/// Whether `text` is right for the schema of a quantity: its unit, and its range (`x-min` to `x-max`), about which the message is empty.
/// `None` if the schema is no quantity's.
pub(super) fn check_quantity(schema: &serde_json::Value, text: &str) -> Option<Result<(), String>> {
    let parse = match schema["format"].as_str()? {
        Duration::FORMAT => |text: &str| Duration::parse(text).map(Duration::as_ps),
        Bytes::FORMAT => |text: &str| Bytes::parse(text).map(Bytes::get),
        Rate::FORMAT => |text: &str| match Rate::parse(text)?.as_bps() {
            0 => Err(format!("\"{text}\" is no rate to send at; it must be above zero")),
            rate => Ok(rate),
        },
        _ => return None,
    };
    let bound = |name: &str| schema[name].as_str().map(|text| parse(text).expect("the bounds of a schema are quantities"));
    let inside =
        |value: u64| bound("x-min").is_none_or(|least| value >= least) && bound("x-max").is_none_or(|most| value <= most);
    Some(parse(text).and_then(|value| if inside(value) { Ok(()) } else { Err(String::new()) }))
}

impl<T: Unit> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.print())
    }
}

impl<'de, T: Unit> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::parse(&text).map(Quantity).map_err(de::Error::custom)
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
