//! Wrong values and fields, and texts with one wrong character.

use fastrand::Rng;
use serde_json::{Value, json};

/// Returns fields to add to an object: unknown ones, ones that are valid only in other objects, and
/// ones that may not be combined with the object's other fields.
pub fn siblings() -> [(&'static str, Value); 7] {
    [
        ("unknown", json!(1)),
        ("modules", json!({"worker.js": ""})),
        ("configMapRef", json!({"name": "code"})),
        ("value", json!("x")),
        ("tolerationSeconds", json!(5)),
        ("minDomains", json!(3)),
        ("traffic", json!([{"percent": 100}])),
    ]
}

/// Returns values that people, templates and attackers might write in place of `value`.
pub fn oddities(value: &Value) -> Vec<Value> {
    let wrong_types = [
        json!(null),
        json!(true),
        json!("x"),
        json!(1),
        json!(1.5),
        json!([]),
        json!([null]),
        json!({}),
    ];
    let similar: Vec<Value> = match value {
        Value::String(_) => {
            let long = [64, 254, 1_025, 1_048_576].map(|length| "x".repeat(length));
            STRINGS.map(str::to_owned).into_iter().chain(long).map(Value::from).collect()
        }
        Value::Array(_) => {
            vec![json!([1]), json!([[]]), json!([{}]), vec![json!("item"); 2_000].into()]
        }
        Value::Object(_) => {
            let many = (0..2_000).map(|i| (format!("key{i}"), json!("value")));
            let many = many.collect::<serde_json::Map<_, _>>().into();
            vec![
                json!({"a": 1}),
                json!({"b": "c"}),
                json!({"": ""}),
                json!({"x": null}),
                json!({"x": {}}),
                many,
            ]
        }
        _ => {
            let small = [
                json!(-1),
                json!(0),
                json!(2.0),
                json!(65),
                json!(10_001),
                json!("2"),
                json!("1e3"),
            ];
            let huge = [
                json!(1_000_000_000_000_i64),
                json!(i64::MIN),
                json!(u64::MAX),
                json!(1e300),
                json!(-1e300),
            ];
            small.into_iter().chain(huge).collect()
        }
    };
    wrong_types.into_iter().chain(similar).collect()
}

const STRINGS: [&str; 40] = [
    "",
    " ",
    "Upper Case",
    "a.b",
    "a..b",
    "-dash",
    "dash-",
    ".",
    "..",
    "../up",
    "/",
    "//",
    "/a/",
    "/a//b",
    "/a b",
    "/a?b#c",
    "/%zz",
    "/a/../b",
    "/a/%2E",
    "/é",
    "*.example.com",
    "*.com",
    "*",
    "a.*.com",
    "example.com:80",
    "[::1]",
    "9lives",
    "GREETING",
    "__proto__",
    "line\nline",
    "nul\0",
    "Straße ☃",
    "\u{202e}txt",
    "1Gi",
    "-1Gi",
    "1e9",
    "0.0001",
    "99999999999Ti",
    "yes",
    "{{ .Values.x }}",
];

/// Removes, replaces or adds one character.
pub fn slip(text: &str, rng: &mut Rng) -> String {
    const WRONG: [char; 26] = [
        '/', '.', '-', '_', '%', '*', ':', '?', '#', '@', '\\', '\'', '"', '$', '<', ' ', '\t',
        '\n', '\0', '\u{7f}', 'é', '☃', 'A', 'a', '0', '~',
    ];
    let mut characters: Vec<char> = text.chars().collect();
    let at = rng.usize(..=characters.len());
    let wrong = WRONG[rng.usize(..WRONG.len())];
    match rng.u8(..3) {
        0 if at < characters.len() => drop(characters.remove(at)),
        1 if at < characters.len() => characters[at] = wrong,
        _ => characters.insert(at, wrong),
    }
    characters.into_iter().collect()
}
