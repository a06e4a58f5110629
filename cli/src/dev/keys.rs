//! Keys that `switchhook dev` generates when it has no others, and the commands that it prints with them.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::shell::program;

/// Size of a generated key: 192 bits.
const KEY_BYTES: usize = 24;

/// Keys of a stack. A data directory keeps them for later runs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeneratedKeys {
    retell: String,
    /// API key for the fake provider.
    retell_api: String,
    twilio: String,
    generic: String,
}

impl GeneratedKeys {
    pub(super) fn generate() -> Result<Self, getrandom::Error> {
        let key = || {
            let mut bytes = [0; KEY_BYTES];
            getrandom::fill(&mut bytes).map(|()| hex::encode(bytes))
        };
        Ok(Self { retell: key()?, retell_api: key()?, twilio: key()?, generic: key()? })
    }

    /// Returns the keys in the format of a providers file.
    pub(super) fn providers(&self, base_url: &str) -> Value {
        json!({
            "retell": {
                "keys": [self.retell],
                "dial": {"api_key": self.retell_api},
            },
            "twilio": {"keys": [self.twilio], "public_url": base_url},
            "generic": {"keys": [self.generic]},
        })
    }

    /// Prints commands that use the keys. They name the program as the user called it, so that they can be pasted.
    pub(super) fn print_commands(&self, base_url: &str, errors: &mut impl Write) -> io::Result<()> {
        let program = program();
        writeln!(errors, "Keys of this stack, with commands to try:")?;
        for (provider, key, sample) in [
            ("retell", &self.retell, "retell/call_ended"),
            ("twilio", &self.twilio, "twilio/completed"),
            ("generic", &self.generic, "generic/user_confirmed"),
        ] {
            writeln!(errors, "  {program} send --provider {provider} --key {key} --sample {sample} --to {base_url}")?;
        }
        writeln!(errors, "  {program} show appointment:appt_201 --to {base_url}")?;
        writeln!(
            errors,
            "  {program} call create --provider retell --from-number +442079460018 --to-number +447700900120 \
             --to {base_url}",
        )?;
        writeln!(errors, "  curl -N {base_url}/domain-events")
    }
}
