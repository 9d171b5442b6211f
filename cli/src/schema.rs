//! Validates an object against the schema of its CustomResourceDefinition, as the API server does.
//! This module is pure.
//!
//! The schema and its CEL rules are the ones that clusters have, so no rule is written twice.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_cel::{ErrorKind, ValidationErrors, Validator};
use regex::Regex;
use serde_json::Value;

/// Returns the violations of the schema in `value`, each as `path: message`, or as a message alone
/// for `value` itself and for CEL rules. The CEL rules are evaluated only if there is no other
/// violation.
pub(crate) fn violations(schema: &JSONSchemaProps, value: &Value) -> Vec<String> {
    let mut checker = Checker { path: Vec::new(), found: Vec::new() };
    checker.check(schema, value);
    // The CEL rules may assume that the value matches the rest of the schema.
    if checker.found.is_empty() { broken_rules(schema, value) } else { checker.found }
}

fn broken_rules(schema: &JSONSchemaProps, value: &Value) -> Vec<String> {
    let schema = serde_json::to_value(schema).expect("the schema has a key that is not a string");
    let broken =
        Validator::new().validate(&schema, value, None).err().map(ValidationErrors::into_vec);
    // A rule that cannot be evaluated here is left to the API server. The message of a rule names
    // the field.
    let broken =
        broken.into_iter().flatten().filter(|error| error.kind == ErrorKind::ValidationFailure);
    broken.map(|error| error.message).collect()
}

struct Checker {
    path: Vec<String>,
    found: Vec<String>,
}

impl Checker {
    fn check(&mut self, schema: &JSONSchemaProps, value: &Value) {
        if value.is_null() && schema.nullable == Some(true) {
            return;
        }
        if let Some(expected) = &schema.type_
            && !has_type(value, expected)
            && schema.x_kubernetes_int_or_string != Some(true)
        {
            self.report(format!("must be of type {expected}, is {}", type_of(value)));
            return;
        }
        if let Some(allowed) = &schema.enum_
            && !allowed.iter().any(|candidate| candidate.0 == *value)
        {
            let allowed: Vec<_> = allowed.iter().map(|candidate| candidate.0.to_string()).collect();
            self.report(format!("{value} is not one of {}", allowed.join(", ")));
        }
        match value {
            Value::Object(object) => self.check_object(schema, object),
            Value::Array(items) => self.check_array(schema, items),
            Value::String(text) => self.check_string(schema, text),
            Value::Number(number) => self.check_number(schema, number.as_f64().unwrap_or_default()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_object(&mut self, schema: &JSONSchemaProps, object: &serde_json::Map<String, Value>) {
        for name in schema.required.iter().flatten().filter(|name| !object.contains_key(*name)) {
            self.within(name, |checker| checker.report("is required".to_owned()));
        }
        self.check_count("fields", object.len(), schema.min_properties, schema.max_properties);
        let allows_unknown = schema.x_kubernetes_preserve_unknown_fields == Some(true);
        for (name, value) in object {
            let property = schema.properties.as_ref().and_then(|properties| properties.get(name));
            self.within(name, |checker| match (property, &schema.additional_properties) {
                (Some(property), _) => checker.check(property, value),
                (None, Some(JSONSchemaPropsOrBool::Schema(values))) => checker.check(values, value),
                (None, Some(JSONSchemaPropsOrBool::Bool(true))) => {}
                (None, _) if allows_unknown || schema.properties.is_none() => {}
                (None, _) => checker.report("unknown field".to_owned()),
            });
        }
    }

    fn check_array(&mut self, schema: &JSONSchemaProps, items: &[Value]) {
        self.check_count("items", items.len(), schema.min_items, schema.max_items);
        if let Some(JSONSchemaPropsOrArray::Schema(item_schema)) = &schema.items {
            for (i, item) in items.iter().enumerate() {
                self.within(&format!("[{i}]"), |checker| checker.check(item_schema, item));
            }
        }
    }

    fn check_string(&mut self, schema: &JSONSchemaProps, text: &str) {
        self.check_count("characters", text.chars().count(), schema.min_length, schema.max_length);
        let pattern =
            schema.pattern.as_ref().and_then(|pattern| Some((pattern, Regex::new(pattern).ok()?)));
        if let Some((pattern, regex)) = pattern
            && !regex.is_match(text)
        {
            self.report(format!("{text:?} does not match {pattern}"));
        }
    }

    fn check_number(&mut self, schema: &JSONSchemaProps, number: f64) {
        match (schema.minimum, schema.maximum) {
            (Some(minimum), _) if number < minimum => {
                self.report(format!("must be at least {minimum}, is {number}"))
            }
            (_, Some(maximum)) if number > maximum => {
                self.report(format!("must be at most {maximum}, is {number}"))
            }
            _ => {}
        }
    }

    fn check_count(&mut self, what: &str, count: usize, min: Option<i64>, max: Option<i64>) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        match (min, max) {
            (Some(min), _) if count < min => {
                self.report(format!("must have at least {min} {what}, has {count}"))
            }
            (_, Some(max)) if count > max => {
                self.report(format!("must have at most {max} {what}, has {count}"))
            }
            _ => {}
        }
    }

    fn within(&mut self, segment: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(segment.to_owned());
        check(self);
        self.path.pop();
    }

    fn report(&mut self, message: String) {
        let path = self.path.join(".").replace(".[", "[");
        self.found.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        _ => type_of(value) == expected,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> JSONSchemaProps {
        serde_json::from_value(json!({
            "type": "object",
            "required": ["entrypoint"],
            "properties": {
                "entrypoint": {"type": "string", "minLength": 1, "pattern": "[.]js$"},
                "state": {"type": "string", "enum": ["Persist", "Reset"]},
                "vars": {"type": "object", "additionalProperties": {"type": "string"}},
                "limits": {"type": "object", "nullable": true, "properties": {"cpuMs": {"type": "integer", "maximum": 100}}},
                "routes": {"type": "array", "maxItems": 1, "items": {"type": "object", "required": ["host"], "properties": {"host": {"type": "string"}}}},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_valid_value_passes() {
        let value = json!({"entrypoint": "a.js", "vars": {"A": "b"}, "limits": null, "routes": [{"host": "a"}]});
        assert_eq!(violations(&schema(), &value), [""; 0]);
    }

    #[test]
    fn every_violation_names_its_field() {
        let value = json!({
            "entrypont": "a.js", "state": "Forget", "vars": {"A": 1}, "limits": {"cpuMs": 101}, "routes": [{}, {"host": true}]
        });
        let expected = [
            "entrypoint: is required",
            "entrypont: unknown field",
            "limits.cpuMs: must be at most 100, is 101",
            "routes: must have at most 1 items, has 2",
            "routes[0].host: is required",
            "routes[1].host: must be of type string, is boolean",
            "state: \"Forget\" is not one of \"Persist\", \"Reset\"",
            "vars.A: must be of type string, is number",
        ];
        let mut found = violations(&schema(), &value);
        found.sort();
        assert_eq!(found, expected);
    }
}
