//! Every parameter of every transport has a range, the default is in it, and what is outside is refused with the range.

use flowloom_core::{Bytes, Duration, Rate};
use flowloom_lab::spec::Scenario;
use serde_json::Value;

const SCENARIO: &str = r#"
[topology]
kind = "single_switch"
hosts = 2
[workload]
kind = "permutation"
sizes = { fixed = "1kB" }
[transport]
name = "ideal"
"#;

/// Calls `visit` with the key, the schema and the default of everything in a table that is no table.
fn each_leaf(path: &str, schema: &Value, default: &Value, visit: &mut impl FnMut(&str, &Value, &Value)) {
    for (name, property) in schema["properties"].as_object().expect("a table") {
        let (key, default) = (format!("{path}.{name}"), &default[name]);
        if property["properties"].is_object() {
            each_leaf(&key, property, default, visit);
        } else {
            visit(&key, property, default);
        }
    }
}

fn each_parameter(mut visit: impl FnMut(&str, &Value, &Value)) {
    for transport in flowloom_lab::catalogue()["transports"].as_array().expect("a list") {
        let path = format!("transport.{}", transport["name"].as_str().expect("a name"));
        each_leaf(&path, &transport["schema"], &transport["defaults"], &mut visit);
    }
}

/// In the smallest unit.
fn base(format: &str, text: &str) -> u64 {
    match format {
        "quantity-duration" => text.parse::<Duration>().unwrap().as_ps(),
        "quantity-bytes" => text.parse::<Bytes>().unwrap().get(),
        "quantity-rate" => text.parse::<Rate>().unwrap().as_bps(),
        other => panic!("{other}"),
    }
}

fn written(format: &str, value: u64) -> String {
    let unit = match format {
        "quantity-duration" => "ps",
        "quantity-bytes" => "B",
        _ => "b/s",
    };
    format!("{value}{unit}")
}

/// The error of a scenario with one parameter changed.
fn error(key: &str, value: &str) -> String {
    match Scenario::load(SCENARIO, "scenario.toml", &[format!("{key}={value}")]) {
        Ok(_) => panic!("{key} = {value} is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_parameter_has_a_range_and_is_held_to_it() {
    let mut checked = 0;
    each_parameter(|key, schema, default| {
        // Of a choice between a word and a list, the list has a range.
        let lists = |schema: &&Value| schema["type"] == "array";
        let schema = schema["anyOf"].as_array().and_then(|branches| branches.iter().find(lists)).unwrap_or(schema);
        let (schema, default) = if schema["type"] == "array" {
            assert!(schema["maxItems"].is_u64(), "{key}: a list has a most length");
            (&schema["items"], &default[0])
        } else {
            (schema, default)
        };
        let outside = match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("string"), Some(format)) => {
                let bound = |name: &str| base(format, schema[name].as_str().unwrap_or_else(|| panic!("{key} has no {name}")));
                let (least, most) = (bound("x-min"), bound("x-max"));
                if let Some(default) = default.as_str() {
                    assert!((least..=most).contains(&base(format, default)), "{key}: {default}");
                }
                [least.checked_sub(1), most.checked_add(1)].map(|value| value.map(|value| written(format, value)))
            }
            (Some("integer"), _) => {
                let bound = |name: &str| schema[name].as_i64().unwrap_or_else(|| panic!("{key} has no {name}"));
                let (least, most) = (bound("minimum"), bound("maximum"));
                assert!((least..=most).contains(&default.as_i64().expect("a default")), "{key}");
                [least - 1, most + 1].map(|value| Some(value.to_string()))
            }
            (Some("number"), _) => {
                let least = schema["minimum"].as_f64().or(schema["exclusiveMinimum"].as_f64());
                let most = schema["maximum"].as_f64();
                let (least, most) = least.zip(most).unwrap_or_else(|| panic!("{key} has no range"));
                assert!((least..=most).contains(&default.as_f64().expect("a default")), "{key}");
                [least - 0.5, most * 1.5].map(|value| Some(format!("{value:?}")))
            }
            _ => return, // words, and true or false
        };
        for value in outside.into_iter().flatten() {
            let value = if key.ends_with("thresholds") { format!("[\"{value}\"]") } else { value };
            let error = error(key, &value);
            assert!(error.starts_with(&format!("--set {key}={value}: {key}")), "{error}");
            assert!(error.contains("found") && error.contains("expected"), "{error}");
            checked += 1;
        }
    });
    println!("{checked} values outside of their ranges are refused");
    assert!(checked > 150, "{checked}");
}

#[test]
fn what_was_found_and_the_range_are_told() {
    for (key, value, expected) in [
        ("transport.tcp.rto_min", "1ps", "found the text \"1ps\", expected a duration from 1us to 1000s"),
        ("transport.pfabric.port_most", "3GB", "found the text \"3GB\", expected a number of bytes from 1B to 2GB"),
        ("transport.phost.rts_retry_rtts", "1e15", "expected a number from 0.1 to 1000000"),
        ("transport.phost.reissue_slots", "1e14", "expected a number from 0.001 to 1000000"),
        ("transport.fastpass.epoch_slots", "9", "found 9, expected a whole number from 1 to 8"),
        ("transport.pias.thresholds", "[\"2TB\"]", "found the text \"2TB\", expected a number of bytes from 1B to 1TB"),
        ("transport.pias.thresholds", "\"fited\"", "\"fited\" is unknown; did you mean \"fitted\""),
        ("transport.pias.thresholds", "5", "found 5, expected one of fitted, or a list"),
    ] {
        let error = error(key, value);
        assert!(error.contains(expected), "{error}");
    }
}
