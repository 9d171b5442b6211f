//! Generates the tables of the custom resources' fields from the schemas that the API server
//! enforces.

use serde_json::Value;

/// Returns the table of the fields below `spec.<path>`.
///
/// # Arguments
/// * `kind` - the kind of the custom resource.
/// * `path` - the field whose fields are listed, such as `limits`, or empty for `spec` itself.
/// * `apart` - the paths below `path` of fields that have a table of their own. Each of them gets
///   one row in this table.
///
/// # Panics
/// Panics if Tenon has no kind `kind`, or if the kind has no field `path`.
pub(crate) fn table(kind: &str, path: &str, apart: &[&str]) -> String {
    let crds = tenon_crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == kind).expect("Tenon has no such kind");
    let schema = serde_json::to_value(&crd.spec.versions[0].schema)
        .expect("cannot represent the schema in JSON");
    let mut at = &schema["openAPIV3Schema"]["properties"]["spec"];
    for name in path.split('.').filter(|name| !name.is_empty()) {
        at = &at["properties"][name];
    }
    let mut rows = String::new();
    add_fields(at, "", apart, &mut rows);
    assert!(!rows.is_empty(), "{kind} has no field spec.{path}");
    format!("| field | meaning | values | default |\n| --- | --- | --- | --- |\n{rows}")
}

/// Adds a row for each field of an object with this schema. A field that is itself an object, or a
/// list of objects, gets no row: the fields of that object get rows with longer paths. Only if
/// `apart` names the field's path does the field get a row and its own fields none.
fn add_fields(schema: &Value, prefix: &str, apart: &[&str], rows: &mut String) {
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let below = format!("{path}{}.", if field["items"].is_object() { "[]" } else { "" });
        let object = if field["items"].is_object() { &field["items"] } else { field };
        if object["properties"].is_object() && !apart.contains(&path.as_str()) {
            add_fields(object, &below, apart, rows);
            continue;
        }
        let meaning =
            field["description"].as_str().or(object["description"].as_str()).unwrap_or_default();
        let meaning = meaning.replace('\n', " ").replace('|', "\\|");
        let default = match &field["default"] {
            _ if required.contains(&name.as_str()) => "required".to_owned(),
            Value::Null => String::new(),
            Value::String(text) => format!("`{text}`"),
            Value::Number(number) => number.to_string(),
            // Defaults of other types are not shown: an empty object, for example, only stands for
            // the defaults of its fields.
            _ => String::new(),
        };
        rows.push_str(&format!("| `{path}` | {meaning} | {} | {default} |\n", values(field)));
    }
}

/// Describes the values that the schema of a field allows, for a cell of the table.
fn values(field: &Value) -> String {
    let number = |name: &str| field[name].as_f64();
    let element = if field["items"].is_object() { &field["items"] } else { field };
    let names = element["enum"].as_array().map(|names| {
        let names = names.iter().filter_map(Value::as_str).map(|name| format!("`{name}`"));
        names.collect::<Vec<_>>().join(", ")
    });
    let most = number("maxItems").or(number("maxProperties")).map(|most| format!("at most {most}"));
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => [names, most].into_iter().flatten().collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_the_meaning_the_values_and_the_default() {
        let schema = json!({ "required": ["host"], "properties": {
            "count": { "description": "Number\nof things.", "minimum": 1.0, "maximum": 9.0, "default": 2 },
            "host": { "description": "a | b" },
            "kinds": { "maxItems": 3, "items": { "description": "A kind.", "enum": ["X", "Y"] } },
        }});
        let mut rows = String::new();
        add_fields(&schema, "", &[], &mut rows);
        let expected = "| `count` | Number of things. | 1 to 9 | 2 |\n\
                        | `host` | a \\| b |  | required |\n\
                        | `kinds` | A kind. | `X`, `Y`; at most 3 |  |\n";
        assert_eq!(rows, expected);
    }

    #[test]
    fn nested_fields_have_their_path_unless_documented_separately() {
        let inner = json!({ "properties": { "name": { "description": "Name." } } });
        let schema =
            json!({ "properties": { "list": { "items": inner }, "own": inner, "part": inner } });
        let mut rows = String::new();
        add_fields(&schema, "", &["own"], &mut rows);
        let paths = rows.lines().filter_map(|row| row.split('`').nth(1)).collect::<Vec<_>>();
        assert_eq!(paths, ["list[].name", "own", "part.name"]);
    }

    #[test]
    fn every_field_of_a_spec_has_a_meaning() {
        for kind in ["Worker", "RuntimePool", "HostGrant"] {
            for row in table(kind, "", &[]).lines().skip(2) {
                let meaning = row.split(" | ").nth(1).unwrap_or_default();
                assert!(!meaning.is_empty(), "{kind} has a field without a description: {row}");
            }
        }
    }
}
