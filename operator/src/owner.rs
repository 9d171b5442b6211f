//! Ownership of the objects that the operator creates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// Returns the reference of a created object to its owner. The reference blocks the owner's
/// deletion in the foreground until the created object is gone.
pub fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> Vec<OwnerReference> {
    let reference = owner.controller_owner_ref(&());
    let blocking =
        reference.map(|owner| OwnerReference { block_owner_deletion: Some(true), ..owner });
    blocking.into_iter().collect()
}

/// Returns whether an object is being deleted. The objects that it owns must not be created again
/// then, because a deletion in the foreground waits until they are gone.
pub fn is_being_deleted<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}
