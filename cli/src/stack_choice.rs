//! The options that choose a stack, the same for every command.
//!
//! The first of these that names a stack decides: the options, the environment, the configuration file, and a running
//! `switchhook dev`.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use switchhook_aws::sdk::Patience;
use switchhook_operate::{Address, Stack, StackNames};
use tokio::runtime::Runtime;

use crate::client::Api;
use crate::running_dev::{RunningDev, directory};

/// Environment variable with the name of a deployed stack.
const STACK_VARIABLE: &str = "SWITCHHOOK_STACK";
/// Environment variable with the URL of a stack.
const TO_VARIABLE: &str = "SWITCHHOOK_TO";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StackChoice {
    /// Name of a deployed stack, which is reached with your AWS credentials
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    stack: Option<String>,
    /// AWS region of that stack; without it, the region of your AWS configuration
    #[arg(long, value_name = "REGION", conflicts_with = "to")]
    region: Option<String>,
    /// URL of a stack; a running `switchhook dev` is found without it
    #[arg(long, value_name = "URL")]
    to: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StackChoiceError {
    #[error(
        "no stack is chosen: name a deployed stack with --stack or a URL with --to, or set SWITCHHOOK_STACK or \
         SWITCHHOOK_TO, or write {{\"stack\": …}} or {{\"to\": …}} to {config}, or start `switchhook dev`"
    )]
    None { config: String },
    #[error("several `switchhook dev` are running: choose one with --to: {}", .0.join(" or "))]
    SeveralDevs(Vec<String>),
    #[error("SWITCHHOOK_STACK and SWITCHHOOK_TO are both set: unset one of them")]
    TwoVariables,
    #[error("could not read the configuration file {path}")]
    ReadConfig {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a configuration file: it must be like {{\"stack\": \"NAME\"}} or {{\"to\": \"URL\"}}")]
    ParseConfig {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{0} names both a stack and a URL: remove one of them")]
    TwoInConfig(PathBuf),
    #[error(transparent)]
    Operate(#[from] switchhook_operate::Error),
    #[error("could not start the async runtime")]
    Start(#[source] io::Error),
}

/// A stack, and the runtime in which its clients work.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stack: Stack,
    runtime: Runtime,
}

/// Content of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    stack: Option<String>,
    region: Option<String>,
    to: Option<String>,
}

impl Connection {
    /// Connects to the stack at this address.
    pub(crate) fn to(address: &Address, patience: Patience) -> Result<Self, StackChoiceError> {
        let runtime = runtime()?;
        let stack = runtime.block_on(Stack::connect(address, patience))?;
        Ok(Self { stack, runtime })
    }

    /// Returns the stack's API.
    pub(crate) fn api(&self) -> Api {
        Api::of(&self.stack)
    }

    /// Waits for a future that uses the stack.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl StackChoice {
    /// Connects to the stack, for requests that somebody waits for.
    pub(crate) fn connect(&self) -> Result<Connection, StackChoiceError> {
        Connection::to(&self.address()?, Patience::Short)
    }

    /// Connects to the stack, for a search or a run.
    pub(crate) fn connect_patiently(&self) -> Result<Connection, StackChoiceError> {
        Connection::to(&self.address()?, Patience::Long)
    }

    /// Returns the stack's API.
    pub(crate) fn api(&self) -> Result<Api, StackChoiceError> {
        match self.address()? {
            Address::Local { url } => Ok(Api { url, region: None }),
            address @ Address::Deployed { .. } => Ok(Connection::to(&address, Patience::Short)?.api()),
        }
    }

    /// Returns the address of the stack.
    pub(crate) fn address(&self) -> Result<Address, StackChoiceError> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        self.choose(variable, config, answering_dev)
    }

    fn choose(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        config: impl FnOnce() -> Result<Config, StackChoiceError>,
        dev: impl FnOnce() -> Result<Option<String>, StackChoiceError>,
    ) -> Result<Address, StackChoiceError> {
        let deployed =
            |stack: String, region: Option<String>| Address::Deployed { stack, region: self.region.clone().or(region) };
        match (&self.stack, &self.to) {
            (Some(stack), _) => return Ok(deployed(stack.clone(), None)),
            (None, Some(to)) => return Ok(Address::Local { url: to.clone() }),
            (None, None) => {}
        }
        match (variable(STACK_VARIABLE), variable(TO_VARIABLE)) {
            (Some(_), Some(_)) => return Err(StackChoiceError::TwoVariables),
            (Some(stack), None) => return Ok(deployed(stack, None)),
            (None, Some(url)) => return Ok(Address::Local { url }),
            (None, None) => {}
        }
        let Config { stack, region, to } = config()?;
        match (stack, to) {
            (Some(stack), _) => return Ok(deployed(stack, region)),
            (None, Some(url)) => return Ok(Address::Local { url }),
            (None, None) => {}
        }
        let none = || StackChoiceError::None { config: config_path().map_or_else(String::new, display) };
        dev()?.map(|url| Address::Local { url }).ok_or_else(none)
    }
}

/// Reads the configuration file. Without a file, nothing is configured.
fn config() -> Result<Config, StackChoiceError> {
    let Some(path) = config_path() else { return Ok(Config::default()) };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(source) => return Err(StackChoiceError::ReadConfig { path, source }),
    };
    let config: Config =
        serde_json::from_str(&text).map_err(|source| StackChoiceError::ParseConfig { path: path.clone(), source })?;
    if config.stack.is_some() && config.to.is_some() {
        return Err(StackChoiceError::TwoInConfig(path));
    }
    Ok(config)
}

fn config_path() -> Option<PathBuf> {
    Some(directory("XDG_CONFIG_HOME", ".config")?.join("config.json"))
}

/// Returns the URL of the running `switchhook dev`. A file that a killed one left behind is ignored: nothing answers at
/// its URL.
fn answering_dev() -> Result<Option<String>, StackChoiceError> {
    let runtime = runtime()?;
    let mut urls = RunningDev::urls();
    urls.retain(|url| runtime.block_on(StackNames::of_dev(url)).is_ok());
    if urls.len() > 1 { Err(StackChoiceError::SeveralDevs(urls)) } else { Ok(urls.pop()) }
}

/// Makes the runtime in which the clients of a stack work.
pub(crate) fn runtime() -> Result<Runtime, StackChoiceError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StackChoiceError::Start)
}

fn display(path: PathBuf) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(url: &str) -> Address {
        Address::Local { url: url.to_owned() }
    }

    fn deployed(stack: &str, region: Option<&str>) -> Address {
        Address::Deployed { stack: stack.to_owned(), region: region.map(str::to_owned) }
    }

    /// Chooses with these options, variables, configuration and running stack.
    fn choose(
        options: &StackChoice,
        variables: &[(&str, &str)],
        config: &str,
        dev: Option<&str>,
    ) -> Result<Address, StackChoiceError> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        options.choose(variable, || Ok(serde_json::from_str(config).unwrap()), || Ok(dev.map(str::to_owned)))
    }

    #[test]
    fn first_source_that_names_a_stack_decides() {
        let none = StackChoice::default();
        let stack = StackChoice { stack: Some("flag".to_owned()), ..StackChoice::default() };
        let to = StackChoice { to: Some("http://flag".to_owned()), ..StackChoice::default() };
        let (variable, config, dev) = ([("SWITCHHOOK_STACK", "variable")], r#"{"stack":"file"}"#, Some("http://dev"));
        assert_eq!(choose(&stack, &variable, config, dev).unwrap(), deployed("flag", None));
        assert_eq!(choose(&to, &variable, config, dev).unwrap(), local("http://flag"));
        assert_eq!(choose(&none, &variable, config, dev).unwrap(), deployed("variable", None));
        assert_eq!(choose(&none, &[("SWITCHHOOK_TO", "http://v")], config, dev).unwrap(), local("http://v"));
        assert_eq!(choose(&none, &[], config, dev).unwrap(), deployed("file", None));
        assert_eq!(choose(&none, &[], r#"{"to":"http://file"}"#, dev).unwrap(), local("http://file"));
        assert_eq!(choose(&none, &[], "{}", dev).unwrap(), local("http://dev"));
    }

    #[test]
    fn region_of_the_options_comes_before_that_of_the_file() {
        let config = r#"{"stack":"file","region":"eu-west-1"}"#;
        let region = StackChoice { region: Some("eu-north-1".to_owned()), ..StackChoice::default() };
        assert_eq!(choose(&StackChoice::default(), &[], config, None).unwrap(), deployed("file", Some("eu-west-1")));
        assert_eq!(choose(&region, &[], config, None).unwrap(), deployed("file", Some("eu-north-1")));
        let variable = [("SWITCHHOOK_STACK", "variable")];
        assert_eq!(
            choose(&region, &variable, config, None).unwrap(),
            deployed("variable", Some("eu-north-1")),
            "the region of the file belongs to the stack of the file"
        );
    }

    #[test]
    fn no_stack_and_two_stacks_are_errors() {
        let none = choose(&StackChoice::default(), &[], "{}", None).unwrap_err().to_string();
        for way in ["--stack", "--to", "SWITCHHOOK_STACK", "SWITCHHOOK_TO", "config.json", "switchhook dev"] {
            assert!(none.contains(way), "{way} is not in {none}");
        }
        let both = [("SWITCHHOOK_STACK", "a"), ("SWITCHHOOK_TO", "http://b")];
        let both = choose(&StackChoice::default(), &both, "{}", None);
        assert!(matches!(both, Err(StackChoiceError::TwoVariables)));
    }
}
