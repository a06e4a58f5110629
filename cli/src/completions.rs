//! `switchhook completions`: prints a script that completes commands and options in a shell.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::error::CommandError;

const EXAMPLES: &str = "\
Examples:
  switchhook completions bash > ~/.local/share/bash-completion/completions/switchhook
  switchhook completions zsh > \"${fpath[1]}/_switchhook\"
  switchhook completions fish > ~/.config/fish/completions/switchhook.fish

Exit status: 0 if the script was printed, 2 if not.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell that runs the script
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command, out: &mut impl Write) -> Result<bool, CommandError> {
        let name = command.get_name().to_owned();
        // The generator panics if it cannot write, so it writes to memory.
        let mut script = Vec::new();
        generate(self.shell, &mut command, name, &mut script);
        out.write_all(&script)?;
        Ok(true)
    }
}
