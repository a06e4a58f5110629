//! SignalWire's signature is made over URL and form (cXML), or over URL and body (SWML).

use crate::scheme::UrlScheme;

pub(crate) const SCHEME: UrlScheme<&str> = UrlScheme::SignalWire;
