//! What is said reads back, and `docs/reference/schemas/engine.json` describes it: each example there is a message, and each message has one.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

/// The part of JSON Schema that the file uses: type, const, enum, properties, required, items, $ref, anyOf, bounds.
fn fits(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let place = name.strip_prefix('#').unwrap();
        return fits(root.pointer(place).unwrap_or_else(|| panic!("{name}")), root, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().find_map(|one| fits(one, root, value).ok()).ok_or(format!("{value} fits none of {schema}"));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type that this knows"),
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let wrong = |what: &str| Err(format!("{value}: {what}: {schema}"));
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
        return wrong("another type");
    }
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        return wrong("another value");
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return wrong("none of the values");
    }
    if schema["maximum"].as_u64().is_some_and(|most| value.as_u64().is_some_and(|value| value > most)) {
        return wrong("too much");
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return wrong(name);
        }
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        value.get(name).map_or(Ok(()), |value| fits(of, root, value))?;
    }
    let items = value.as_array().filter(|_| schema.get("items").is_some());
    items.into_iter().flatten().try_for_each(|item| fits(&schema["items"], root, item))
}

fn schema() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schemas/engine.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The descriptions of what one side says.
fn described(schema: &Value, side: &str) -> Vec<(String, Value)> {
    let all = schema["$defs"][side]["anyOf"].as_array().unwrap();
    let of = |one: &Value| {
        let name = one["$ref"].as_str().unwrap();
        let definition = schema.pointer(&name[1..]).unwrap().clone();
        (definition["properties"]["kind"]["const"].as_str().unwrap().to_owned(), definition)
    };
    all.iter().map(of).collect()
}

#[test]
fn each_kind_of_an_app_is_described_and_its_examples_are_read() {
    let schema = schema();
    let described = described(&schema, "to_engine");
    let kinds: BTreeSet<&str> = described.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, KINDS.into_iter().collect());
    for (kind, definition) in described {
        let examples = definition["examples"].as_array().unwrap_or_else(|| panic!("{kind} has no example"));
        for example in examples {
            fits(&definition, &schema, example).unwrap();
            let body = read(example.to_string().as_bytes()).unwrap_or_else(|e| panic!("{example}: {e}"));
            let wanted = example["descriptors"].as_u64().unwrap_or(0);
            assert_eq!(body.descriptors as u64, wanted);
            // What is written back is described too, defaults and all.
            let again = serde_json::to_value(body.message.unwrap()).unwrap();
            assert_eq!(again["kind"], kind.as_str());
            fits(&definition, &schema, &again).unwrap();
        }
    }
}

#[test]
fn each_kind_of_an_engine_is_described_and_its_examples_are_what_it_writes() {
    let schema = schema();
    let described = described(&schema, "to_app");
    let kinds: BTreeSet<&str> = described.iter().map(|(kind, _)| kind.as_str()).collect();
    let known = ["hello", "started", "owner", "protect", "statistics", "exported", "error", "ended"];
    assert_eq!(kinds, known.into_iter().collect());
    for (kind, definition) in described {
        for example in definition["examples"].as_array().unwrap_or_else(|| panic!("{kind} has no example")) {
            fits(&definition, &schema, example).unwrap();
            let message: ToApp = serde_json::from_value(example.clone()).unwrap_or_else(|e| panic!("{example}: {e}"));
            fits(&definition, &schema, &serde_json::to_value(message).unwrap()).unwrap();
        }
    }
    assert!(fits(&schema["$defs"]["error"], &schema, &json!({ "kind": "error", "name": "?", "what": "" })).is_err());
}

#[test]
fn what_is_not_known_is_ignored_and_what_is_wrong_is_named() {
    let body = |text: &str| read(text.as_bytes());
    let ignored = body(r#"{"kind": "weather", "descriptors": 1}"#).unwrap();
    assert_eq!(ignored, Body { message: None, descriptors: 1 });
    let newer = body(r#"{"kind": "stop", "gently": true}"#).unwrap();
    assert_eq!(newer.message, Some(ToEngine::Stop));
    for (text, kind, says) in [
        ("no", None, "not JSON"),
        ("[]", None, "a `kind` is expected"),
        (r#"{"kind": "stop", "descriptors": 5}"#, None, "from 0 to 4"),
        (r#"{"kind": "stop", "descriptors": -1}"#, None, "from 0 to 4"),
        (r#"{"kind": "protected", "question": 1}"#, Some("protected"), "missing field `ok`"),
        (r#"{"kind": "export", "what": "secrets"}"#, Some("export"), "unknown variant `secrets`"),
    ] {
        let wrong = body(text).unwrap_err();
        assert!(wrong.kind == kind && wrong.what.contains(says), "{text}: {wrong:?}");
    }
    let long = format!(r#"{{"kind": "owner", "question": 1, "name": "{}"}}"#, "x".repeat(LONGEST_NAME + 1));
    assert_eq!(body(&long).unwrap_err().kind, Some("owner"));
}

#[test]
fn a_network_is_another_one_by_its_name_its_kind_or_its_servers_and_not_by_the_rest() {
    let home = Network { id: "home".into(), transport: "wifi".into(), ..Network::default() };
    let same =
        Network { metered: true, validated: true, addresses: vec!["192.0.2.7".parse().unwrap()], ..home.clone() };
    assert_eq!(home.identity(), same.identity());
    for other in [
        Network { id: "work".into(), ..home.clone() },
        Network { transport: "cellular".into(), ..home.clone() },
        Network { dns: vec!["192.0.2.53".parse().unwrap()], ..home.clone() },
        Network { id: "home\\nwifi".into(), ..home.clone() },
    ] {
        assert_ne!(home.identity(), other.identity(), "{other:?}");
    }
}

/// Messages with whatever in them.
fn any_message() -> impl Strategy<Value = ToEngine> {
    let name = prop::option::of("[a-z.]{0,40}");
    let network = (any::<[bool; 5]>(), "[ -~]{0,20}", prop::collection::vec(any::<IpAddr>(), 0..4)).prop_map(
        |([metered, validated, captive, v4, v6], id, addresses)| Network {
            id,
            metered,
            validated,
            captive,
            v4,
            v6,
            addresses,
            ..Network::default()
        },
    );
    prop_oneof![
        (any::<u32>(), "[ -~]{0,40}").prop_map(|(version, app)| ToEngine::Hello { version, app }),
        network.prop_map(|network| ToEngine::Network { network }),
        (any::<u64>(), any::<Option<u32>>(), name.clone()).prop_map(|(question, uid, name)| ToEngine::Owner {
            question,
            uid,
            name
        }),
        (any::<u64>(), any::<bool>()).prop_map(|(question, ok)| ToEngine::Protected { question, ok }),
        (name, any::<bool>()).prop_map(|(app, on)| ToEngine::Export { what: What::Pcapng, app, on }),
        (any::<Option<u8>>(), any::<Option<bool>>())
            .prop_map(|(battery, doze)| ToEngine::Device { device: Device { battery, doze, ..Device::default() } }),
    ]
}

proptest! {
    #[test]
    fn a_message_reads_back(message in any_message()) {
        let body = read(&message.body()).unwrap();
        prop_assert_eq!(body, Body { message: Some(message), descriptors: 0 });
    }

    #[test]
    fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}

#[test]
fn nothing_is_sent_ahead_where_data_costs_or_the_battery_is_to_be_spared() {
    let usual = (Network::default(), Device { battery: Some(80), ..Device::default() });
    assert!(may_be_ahead(&usual.0, &usual.1) && may_be_ahead(&usual.0, &Device::default()));
    assert!(!may_be_ahead(&Network { metered: true, ..Network::default() }, &usual.1));
    let low = Device { battery: Some(LOW), charging: Some(false), ..Device::default() };
    let may = |device| may_be_ahead(&usual.0, &device);
    assert!(!may(low) && !may(Device { charging: None, ..low }) && may(Device { battery: Some(LOW + 1), ..low }));
    assert!(may(Device { charging: Some(true), ..low }));
    assert!(!may(Device { power_save: Some(true), ..usual.1 }) && !may(Device { doze: Some(true), ..usual.1 }));
}
