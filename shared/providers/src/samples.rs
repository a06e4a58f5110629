//! Bodies as the providers send them.
pub fn samples() -> &'static [(&'static str, &'static str)] {
    &[]
}
