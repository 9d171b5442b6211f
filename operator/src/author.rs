//! The author of a Worker: the program that last changed the Worker, apart from its subresources.
//! This module is pure.
//!
//! The API server records the field manager of each change, such as `kubectl`, `helm` or a GitOps
//! controller, in the managed fields of an object. These are often the largest part of an object,
//! so only the author is kept.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// Reduces the managed fields of an object to the entry of its author, without the fields.
pub fn keep(entries: &mut Vec<ManagedFieldsEntry>) {
    // Operators write subresources only. The time of an entry is in whole seconds; of entries with
    // the same time, any is the author.
    let of_object = entries.drain(..).filter(|entry| entry.subresource.is_none());
    let author = of_object.max_by(|a, b| a.time.cmp(&b.time)).and_then(|entry| entry.manager);
    *entries = author
        .map(|author| ManagedFieldsEntry { manager: Some(author), ..ManagedFieldsEntry::default() })
        .into_iter()
        .collect();
}

/// Returns the author that [`keep`] kept, or the empty text if there is none.
pub fn of(entries: Option<&Vec<ManagedFieldsEntry>>) -> Arc<str> {
    let manager = entries.into_iter().flatten().find_map(|entry| entry.manager.as_deref());
    manager.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, Time};

    use super::*;

    fn entry(manager: &str, second: i64, subresource: Option<&str>) -> ManagedFieldsEntry {
        let time = jiff::Timestamp::from_second(second).unwrap();
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            time: Some(Time(time)),
            subresource: subresource.map(str::to_owned),
            fields_v1: Some(FieldsV1(serde_json::json!({"f:spec": {}}))),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn the_author_is_the_latest_manager_of_the_object_itself() {
        let mut entries = vec![
            entry("kubectl", 2, None),
            entry("helm", 1, None),
            entry("tenon", 3, Some("status")),
        ];
        keep(&mut entries);
        assert_eq!(&*of(Some(&entries)), "kubectl");
        assert!(entries.len() == 1 && entries[0].fields_v1.is_none(), "{entries:?}");
    }

    #[test]
    fn an_object_without_managed_fields_has_the_empty_author() {
        let mut entries = vec![entry("tenon", 3, Some("status"))];
        keep(&mut entries);
        assert!(entries.is_empty());
        assert_eq!((&*of(Some(&entries)), &*of(None)), ("", ""));
    }
}
