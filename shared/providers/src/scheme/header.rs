//! Values of the signature header: one signature, a list of them, or named fields.

use super::data::{HeaderForm, HeaderScheme, TimePlace};
use crate::webhook::VerifyError;

/// Most signatures in one header. A sender that rotates its key sends two.
const SIGNATURES_MAX: usize = 8;

/// Texts of a signature header.
pub(super) struct HeaderValue<'a> {
    /// Encoded signatures without their prefix: at least one.
    pub(super) signatures: Vec<&'a str>,
    /// Time, if it is a field of this header.
    pub(super) timestamp: Option<&'a str>,
}

impl<'a> HeaderValue<'a> {
    /// Parses the header of a scheme.
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] if a signature or the time is missing, if the time occurs twice, or if there are too
    /// many signatures.
    pub(super) fn parse<T: AsRef<str>>(scheme: &HeaderScheme<T>, value: &'a str) -> Result<Self, VerifyError> {
        let prefix = scheme.prefix.as_ref();
        let (signatures, timestamp) = match &scheme.form {
            HeaderForm::Single => (vec![value.strip_prefix(prefix).ok_or(VerifyError::MalformedSignature)?], None),
            HeaderForm::List { separator } => {
                (value.split(*separator).filter_map(|text| text.trim().strip_prefix(prefix)).collect(), None)
            }
            HeaderForm::Fields { signature, exact } => {
                let mut names = value.split(',').map(|field| field.split('=').next());
                if *exact && (names.nth(1) != Some(Some(signature.as_ref())) || names.next().is_some()) {
                    return Err(VerifyError::MalformedSignature);
                }
                let signatures: Option<Vec<&str>> =
                    fields(value, signature.as_ref()).map(|text| text.strip_prefix(prefix)).collect();
                let timestamp = match scheme.timestamp.as_ref().map(|time| &time.place) {
                    Some(TimePlace::Field(name)) => {
                        let mut times = fields(value, name.as_ref());
                        let time = times.next().ok_or(VerifyError::MalformedSignature)?;
                        if times.next().is_some() {
                            return Err(VerifyError::MalformedSignature);
                        }
                        Some(time)
                    }
                    Some(TimePlace::Header(_)) | None => None,
                };
                (signatures.ok_or(VerifyError::MalformedSignature)?, timestamp)
            }
        };
        if (1..=SIGNATURES_MAX).contains(&signatures.len()) {
            Ok(Self { signatures, timestamp })
        } else {
            Err(VerifyError::MalformedSignature)
        }
    }
}

/// Values of the fields with this name.
fn fields<'a>(header: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    // Some senders write a space after the comma. `parse` refuses it in an exact form.
    let fields = header.split(',').enumerate();
    let fields = fields.map(|(index, field)| if index == 0 { field } else { field.trim_start() });
    fields.filter_map(move |field| field.strip_prefix(name)?.strip_prefix('='))
}
