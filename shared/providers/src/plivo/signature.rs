//! Plivo's signature is version 3, over URL, query, form and nonce.

use crate::scheme::UrlScheme;

pub(crate) const SCHEME: UrlScheme<&str> = UrlScheme::Plivo;
