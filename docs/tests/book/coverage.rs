//! Checks that the page of wrangler's keys names every key that the code knows, and that the page
//! of limits states the bounds of the schema and of the code.

use std::collections::BTreeSet;

use tenon_proto::revision::{MAX_MODULES, MAX_SOURCE_BYTES};
use tenon_proto::runtime::MAX_DEPTH;

use crate::content;

#[test]
fn the_page_of_wranglers_keys_names_every_key_that_tenon_import_knows() {
    let page = content("docs/cloudflare/wrangler.md");
    let missing: Vec<_> =
        keys().into_iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/cloudflare/wrangler.md lacks: {missing:?}");
}

/// Returns the keys in the advice and in the translation of wrangler's configuration.
fn keys() -> BTreeSet<String> {
    let advice = content("cli/src/import/advice.rs");
    let advice = advice.split("const ADVICE").nth(1).expect("there is advice");
    let advice = advice.split("#[cfg(test)]").next().expect("there is code before the tests");
    let translate = content("cli/src/import/translate.rs");
    let translate = translate.split("match key {").nth(1).expect("keys are matched");
    let translate = translate.split("_ =>").next().expect("there is an arm for other keys");
    let texts = advice.split('"').chain(translate.split('"'));
    let is_key = |text: &&str| {
        text.len() > 1
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || b"$_0123456789".contains(&byte))
    };
    texts.filter(is_key).map(str::to_owned).collect()
}

#[test]
fn the_page_of_limits_states_the_bounds_of_the_schema() {
    let page = content("docs/limits.md");
    let crds = tenon_crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == "Worker").expect("there is a Worker");
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("a schema is JSON");
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let fields = ["vars", "secrets", "services", "routes", "schedules", "traffic"];
    let nested = [("rollout", "steps"), ("egress", "allow"), ("assets", "runWorkerFirst")];
    let fields = fields.map(|name| (name.to_owned(), &spec[name]));
    let nested = nested
        .map(|(parent, name)| (format!("{parent}.{name}"), &spec[parent]["properties"][name]));
    for (name, field) in fields.into_iter().chain(nested) {
        let most = field["maxItems"].as_u64().or(field["maxProperties"].as_u64());
        assert_states(&page, &name, most.expect("the field has a bound"));
    }
}

#[test]
fn the_page_of_limits_states_the_bounds_of_the_code() {
    let page = content("docs/limits.md");
    assert_states(&page, "number of modules", MAX_MODULES as u64);
    assert_states(&page, "modules in an artifact", (MAX_SOURCE_BYTES >> 20) as u64);
    assert_states(&page, "calls of Workers", u64::from(MAX_DEPTH));
}

/// Checks that a row of the page has the subject in its first cell and the number in its second.
fn assert_states(page: &str, subject: &str, number: u64) {
    let is_about = |row: &&str| row.split('|').nth(1).is_some_and(|cell| cell.contains(subject));
    // The tables separate thousands by commas.
    let numbers = |row: &str| {
        let cell = row.split('|').nth(2).unwrap_or_default().replace(',', "");
        let numbers = cell.split(|character: char| !character.is_ascii_digit());
        numbers.filter_map(|number| number.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let is_stated = page.lines().filter(is_about).any(|row| numbers(row).contains(&number));
    assert!(is_stated, "docs/limits.md does not state the limit {number} of {subject}");
}
