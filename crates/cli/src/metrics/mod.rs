//! `headstart metrics`: what headstart counts, in the text that Prometheus reads, printed once or served.
//!
//! A process of its own, which asks the user's supervisor, the daemon and running measurements when it is asked itself
//! (docs/decisions/0078); nothing wakes up in between.

mod dashboard;
mod exposition;
mod protobuf;
mod reference;
mod table;

use crate::exit;
use crate::observe::Observer;
use crate::web::{self, Answer, Guard, Route};
use anyhow::Context as _;
use clap::ValueEnum;
use exposition::Format;
use headstart_core::time::Duration;
use hyper::Method;
use hyper::header::ACCEPT;
use std::net::SocketAddr;
use std::sync::Arc;

/// How old an answer may be: scraped more often, the answer stays the same.
const FRESH: Duration = Duration::from_millis(250);

/// Arguments of `headstart metrics`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve /metrics at this address until SIGINT or SIGTERM; without it, print the metrics once. Port 0 picks a free port.
    ///
    /// Anything that can reach the address can read program names and counters, but no host names.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Answer requests for this host name too, as a scrape target names it; may be given several times. Addresses are always answered.
    #[arg(long, value_name = "NAME", requires = "listen", value_parser = host_name)]
    host: Vec<String>,
    /// What to print.
    #[arg(long, value_name = "WHAT", default_value = "values", conflicts_with = "listen")]
    print: What,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The metrics in OpenMetrics text.
    Values,
    /// The table of all metrics, in Markdown.
    Reference,
    /// A dashboard for Grafana, in JSON.
    Dashboard,
}

/// Prints or serves them.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let Some(address) = args.listen else {
        match args.print {
            What::Values => crate::say!("{}", values().trim_end()),
            What::Reference => crate::say!("{}", reference::markdown().trim_end()),
            What::Dashboard => crate::say!("{}", dashboard::json().trim_end()),
        }
        return Ok(exit::OK);
    };
    let ending = headstart_io::sys::signal::ending().context("waiting for signals")?;
    let listener =
        std::net::TcpListener::bind(address).map_err(|why| crate::accept::cannot_listen(address, "--listen", &why))?;
    let address = listener.local_addr()?;
    let observer = Arc::new(Observer::new(0));
    let respond = move |request: web::RouteRequest| {
        let observer = Arc::clone(&observer);
        async move {
            let format = Format::wanted(request.headers.get(ACCEPT));
            let told = tokio::task::spawn_blocking(move || exposition::bytes(&observer.look(FRESH), format)).await;
            match told {
                Ok(bytes) => Answer::of(format.media_type(), bytes),
                Err(_) => Answer::plain(hyper::StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be read\n"),
            }
        }
    };
    crate::say!("http://{address}/metrics");
    if !address.ip().is_loopback() {
        crate::complain!(
            "headstart: warning: any host that can reach {address} can read the names of this user's programs"
        );
    }
    web::serve(listener, Guard::named(address, args.host.clone()), ROUTES, respond, ending)?;
    Ok(exit::OK)
}

/// A host's name, without a port.
fn host_name(text: &str) -> Result<String, String> {
    match rustls::pki_types::DnsName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("not a valid host name; leave out the port".to_owned()),
    }
}

/// What is served.
const ROUTES: &[Route] = &[Route::public(Method::GET, "/metrics")];

fn values() -> String {
    exposition::text(&Observer::new(0).look(FRESH), Format::OpenMetrics)
}
