//! Providers that the configuration of a stack describes: a signature scheme, and a mapping from the values of a
//! body, JSON or a form, to call events.

mod mapping;
mod normalize;

pub(crate) use mapping::{Condition, EventMapping, Meaning, Place, Rule, equals, implied_by};
pub(crate) use normalize::{body_id, read};
