//! `switchhook send`: one webhook, signed as its provider would sign it now.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;
use http::{Method, Request};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Key, KeyError, samples, sign};

use crate::client::{self, ClientError};

const EXAMPLES: &str = "\
Examples:
  switchhook send --provider retell --key KEY --sample retell/call_ended --to http://127.0.0.1:8787
  switchhook send --provider generic --key KEY --file event.json --to https://abc.execute-api.eu-west-1.amazonaws.com
  switchhook send --provider twilio --key TOKEN --sample twilio/completed \\
      --to 'http://127.0.0.1:8787/webhooks/twilio?appointment_id=appt_1'

Exit status: 0 if the answer is 2xx, 1 if it is not, 2 if nothing could be sent.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// Whose webhook it is: retell, twilio, vapi, telnyx or generic
    #[arg(long, value_name = "P")]
    provider: Provider,
    /// The key that it is signed with, one of those that the stack has for the provider
    #[arg(long, value_name = "K")]
    key: String,
    #[command(flatten)]
    content: Content,
    /// Where the stack is; /webhooks/P is added unless it is there
    #[arg(long, value_name = "URL")]
    to: String,
    /// What Twilio takes for the stack's address, where that is not the one posted to
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Content {
    /// The body, from a file, as it is; - is standard input
    #[arg(long, value_name = "BODY")]
    file: Option<PathBuf>,
    /// The body, one that comes with this tool, for example retell/call_ended; an unknown name lists them
    #[arg(long, value_name = "NAME")]
    sample: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    // Not checked where arguments are: there a complaint repeats the value.
    #[error("--key is no key")]
    Key(#[source] KeyError),
    #[error("the body could not be read from {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no sample {name:?}; there are:\n  {}", known.join("\n  "))]
    UnknownSample { name: String, known: Vec<&'static str> },
    #[error("the sample {sample} is not of {provider}: choose one of that provider, or --provider otherwise")]
    SampleOfAnother { sample: String, provider: Provider },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the answer could not be printed")]
    Print(#[source] io::Error),
}

impl Send {
    /// True if the answer is 2xx.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, SendError> {
        let key = Key::new(self.key.as_str()).map_err(SendError::Key)?;
        let body = self.content.body(self.provider)?;
        let request = self.request(&key, body, now())?;
        let answer = client::send(request)?;
        writeln!(out, "{} {}", answer.status, answer.body).map_err(SendError::Print)?;
        Ok((200..300).contains(&answer.status))
    }

    fn request(&self, key: &Key, body: Vec<u8>, now: Timestamp) -> Result<Request<Vec<u8>>, SendError> {
        let url = self.with_path(&self.to)?;
        let signed_url = match &self.public_url {
            Some(public_url) => {
                let query = url.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
                format!("{}{query}", self.with_path(public_url)?)
            }
            None => url.clone(),
        };
        let signed = sign(self.provider, key, &signed_url, &body, now);
        // Of the signed URL the query is sent, because Twilio adds to it.
        let base = url.split_once('?').map_or(url.as_str(), |(base, _)| base);
        let url = match signed.url.split_once('?') {
            Some((_, query)) => format!("{base}?{query}"),
            None => base.to_owned(),
        };
        let mut request = Request::builder().method(Method::POST).uri(&url).header("content-type", signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        request.body(body).map_err(|source| ClientError::Request { url, source }.into())
    }

    /// The address of the provider's webhook at a stack.
    fn with_path(&self, to: &str) -> Result<String, ClientError> {
        let uri = client::base_url(to)?;
        let path = format!("/webhooks/{}", self.provider);
        let (base, query) = to.split_once('?').map_or((to, None), |(base, query)| (base, Some(query)));
        let mut url = base.trim_end_matches('/').to_owned();
        if !uri.path().trim_end_matches('/').ends_with(&path) {
            url.push_str(&path);
        }
        if let Some(query) = query {
            url.push('?');
            url.push_str(query);
        }
        Ok(url)
    }
}

impl Content {
    fn body(&self, provider: Provider) -> Result<Vec<u8>, SendError> {
        match (&self.file, &self.sample) {
            (_, Some(name)) => sample(name, provider),
            (Some(path), None) => {
                let read = if path.as_os_str() == "-" {
                    let mut body = Vec::new();
                    io::stdin().read_to_end(&mut body).map(|_| body)
                } else {
                    std::fs::read(path)
                };
                read.map_err(|source| SendError::Read { path: path.clone(), source })
            }
            // The arguments are refused without one of them.
            (None, None) => Ok(Vec::new()),
        }
    }
}

fn sample(name: &str, provider: Provider) -> Result<Vec<u8>, SendError> {
    let Some((_, body)) = samples().iter().find(|(known, _)| *known == name) else {
        let known = samples().iter().map(|(known, _)| *known).collect();
        return Err(SendError::UnknownSample { name: name.to_owned(), known });
    };
    if !name.starts_with(&format!("{provider}/")) {
        return Err(SendError::SampleOfAnother { sample: name.to_owned(), provider });
    }
    Ok(body.as_bytes().to_vec())
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}
