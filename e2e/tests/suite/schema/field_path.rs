//! The paths of the values in an object.

use std::fmt;

use serde_json::Value;

/// The path of a value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

impl FieldPath {
    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    pub fn field(&self, name: &str) -> Self {
        self.then(Step::Field(name.to_owned()))
    }

    pub fn parent(&self) -> Self {
        Self(self.0[..self.0.len() - 1].to_vec())
    }

    /// Returns the field's name, or `None` for an item of a list.
    pub fn name(&self) -> Option<&str> {
        match self.0.last()? {
            Step::Field(name) => Some(name),
            Step::Item(_) => None,
        }
    }

    pub fn get<'a>(&self, object: &'a Value) -> &'a Value {
        self.0.iter().fold(object, |value, step| match step {
            Step::Field(name) => &value[name.as_str()],
            Step::Item(index) => &value[*index],
        })
    }

    pub fn find<'a>(&self, object: &'a mut Value) -> Option<&'a mut Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            Step::Field(name) => value.get_mut(name.as_str()),
            Step::Item(index) => value.get_mut(*index),
        })
    }
}

/// Formats the path as Kubernetes does.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Returns the paths of the object's name, of its spec, and of every value in the spec.
pub fn places(good: &Value) -> Vec<FieldPath> {
    fn below(at: FieldPath, value: &Value, into: &mut Vec<FieldPath>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| below(at.field(name), value, into))
            }
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, value)| below(at.then(Step::Item(i)), value, into));
            }
            _ => {}
        }
        into.push(at);
    }
    let root = FieldPath(Vec::new());
    let mut all = vec![root.field("metadata").field("name")];
    below(root.field("spec"), &good["spec"], &mut all);
    all
}
