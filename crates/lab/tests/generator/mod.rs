//! Random scenarios, and random values from the schemas that scenarios are checked against.

mod scenarios;

use flowloom_core::{Bytes, Duration, Rate};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;

pub use scenarios::{Abilities, FILES, overrides};

/// A source of random choices.
pub struct Random(Xoshiro256PlusPlus);

/// Where in its range a number is.
#[derive(Clone, Copy)]
enum Place {
    Least,
    Largest,
    Between,
}

impl Random {
    /// Each name has draws of its own: a new parameter of one transport changes no scenario of another.
    pub fn of(name: &str, seed: u64) -> Random {
        let seed = name.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    fn one_of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    fn place(&mut self) -> Place {
        [Place::Least, Place::Largest, Place::Between][self.below(3)]
    }

    /// One of the ends, or between them with all orders of magnitude alike.
    fn number(&mut self, least: f64, largest: f64, place: Place) -> f64 {
        match place {
            Place::Least => least,
            Place::Largest => largest,
            Place::Between => (((largest - least + 1.0).ln() * self.unit()).exp() - 1.0 + least).clamp(least, largest),
        }
    }

    fn quantity(&mut self, schema: &Value, place: Place) -> String {
        let bound = |name: &str| schema[name].as_str().unwrap_or_else(|| panic!("{schema} has no range"));
        let bounds = [bound("x-min"), bound("x-max")];
        match schema["format"].as_str() {
            Some("quantity-duration") => {
                let [least, largest] = bounds.map(|text| text.parse::<Duration>().unwrap().as_ps() as f64);
                format!("\"{}ps\"", self.number(least, largest, place) as u64)
            }
            Some("quantity-bytes") => {
                let [least, largest] = bounds.map(|text| text.parse::<Bytes>().unwrap().get() as f64);
                format!("\"{}B\"", self.number(least, largest, place) as u64)
            }
            Some("quantity-rate") => {
                let [least, largest] = bounds.map(|text| text.parse::<Rate>().unwrap().as_bps() as f64);
                format!("\"{}b/s\"", self.number(least, largest, place) as u64)
            }
            other => panic!("{other:?}"),
        }
    }

    fn sizes(&mut self, schema: &Value, count: usize) -> String {
        let items = &schema["items"];
        assert_eq!(items["format"], "quantity-bytes", "{schema}");
        let mut sizes: Vec<u64> = (0..count)
            .map(|_| {
                let place = self.place();
                self.number(1.0, 1e12, place) as u64
            })
            .collect();
        sizes.sort_unstable();
        format!("[{}]", sizes.iter().map(|size| format!("\"{size}B\"")).collect::<Vec<_>>().join(", "))
    }

    /// A value of a number, a quantity or a list.
    fn at(&mut self, schema: &Value, place: Place) -> String {
        let bound = |name: &str| schema[name].as_f64();
        let kind = schema["type"].as_str().unwrap_or_else(|| schema["type"][0].as_str().expect("a type"));
        match kind {
            "string" => self.quantity(schema, place),
            "integer" => format!("{}", self.number(bound("minimum").unwrap(), bound("maximum").unwrap(), place).round()),
            "number" => {
                let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 1e-9)).unwrap();
                format!("{:?}", self.number(least, bound("maximum").unwrap(), place))
            }
            "array" => {
                let count = self.number(0.0, schema["maxItems"].as_f64().unwrap(), place).round() as usize;
                self.sizes(schema, count)
            }
            other => panic!("{other}"),
        }
    }

    /// Any value of a schema: often one of the ends of its range.
    pub fn value(&mut self, schema: &Value) -> String {
        if let Some(words) = words(schema) {
            return words[self.below(words.len())].clone();
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            let branch = self.below(branches.len());
            return self.value(&branches[branch]);
        }
        let place = self.place();
        self.at(schema, place)
    }

    /// The least value of a schema, its largest and one between them, or each word that it can be.
    pub fn ends(&mut self, schema: &Value) -> Vec<String> {
        if let Some(words) = words(schema) {
            return words;
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            return branches.iter().flat_map(|branch| self.ends(branch)).collect();
        }
        [Place::Least, Place::Largest, Place::Between].map(|place| self.at(schema, place)).to_vec()
    }

    /// Overrides for some of the parameters below `path`, each drawn with the probability `share`.
    pub fn parameters(&mut self, path: &str, schema: &Value, share: f64, overrides: &mut Vec<String>) {
        each_leaf(path, schema, &mut |key, property| {
            if self.chance(share) {
                overrides.push(format!("{key}={}", self.value(property)));
            }
        });
    }
}

/// What a value can be, if it is one of a few.
fn words(schema: &Value) -> Option<Vec<String>> {
    let quoted = |word: &Value| format!("\"{}\"", word.as_str().expect("a word"));
    if let Some(words) = schema["oneOf"].as_array() {
        return Some(words.iter().map(|word| quoted(&word["const"])).collect());
    }
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().map(quoted).collect());
    }
    (schema["type"] == "boolean" || schema["type"][0] == "boolean").then(|| ["false", "true"].map(str::to_owned).to_vec())
}

/// Calls `visit` with the key and the schema of everything in a table that is no table.
pub fn each_leaf(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    for (name, property) in schema["properties"].as_object().expect("a table") {
        let key = format!("{path}.{name}");
        if property["properties"].is_object() {
            each_leaf(&key, property, visit);
        } else {
            visit(&key, property);
        }
    }
}
