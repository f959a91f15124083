//! `headstart._realtime`: sessions of [`headstart_realtime`] for Python's asyncio. Programs use `headstart.realtime`, which is written in
//! Python on top of this and sees to it that a cancelled call loses no message.

mod bridge;

use bridge::future;
use headstart_realtime::{self as realtime, Config, Kind, SendError, Why};
use pyo3::exceptions::{PyException, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pyo3::create_exception!(_realtime, SessionError, PyException, "A session failed.");
pyo3::create_exception!(
    _realtime,
    SessionOver,
    SessionError,
    "The session is over. The text says why, and what the peer has not confirmed."
);
pyo3::create_exception!(_realtime, LaneFull, SessionError, "Too many messages of the lane are on their way.");

/// The Python exception for an error of a session.
fn error(error: realtime::SessionError) -> PyErr {
    let text = error.to_string();
    match error {
        // By its kind Python finds the class: ConnectionRefusedError, and so on.
        realtime::SessionError::Connect(source) => io::Error::new(source.kind(), text).into(),
        realtime::SessionError::Send(SendError::Full(_)) => LaneFull::new_err(text),
        realtime::SessionError::Technique(_) | realtime::SessionError::Send(_) => PyValueError::new_err(text),
        realtime::SessionError::Over(_) => SessionOver::new_err(text),
        realtime::SessionError::TimedOut => PyTimeoutError::new_err(text),
    }
}

/// A time in seconds, longer than none.
fn seconds(what: &str, value: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(value).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| PyValueError::new_err(format!("{what}: {value} is not a number of seconds above 0")))
}

fn kind(name: &str) -> PyResult<Kind> {
    match name {
        "latest" => Ok(Kind::Latest),
        "event" => Ok(Kind::Event),
        "ordered" => Ok(Kind::Ordered),
        _ => Err(PyValueError::new_err(format!("{name:?} is not a kind of lane: latest, event, ordered"))),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Latest => "latest",
        Kind::Event => "event",
        Kind::Ordered => "ordered",
    }
}

/// One end of a session.
#[pyclass(frozen, module = "headstart._realtime")]
struct Session(realtime::Session);

#[pymethods]
impl Session {
    /// Waits while the lane is full.
    fn send<'py>(&self, py: Python<'py>, lane: u8, of: &str, key: u64, bytes: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        let lane = self.0.lane(lane, kind(of)?);
        future(py, async move { lane.send_value(key, &bytes).await.map(drop).map_err(error) })
    }

    fn try_send(&self, lane: u8, of: &str, key: u64, bytes: Cow<'_, [u8]>) -> PyResult<()> {
        self.0.lane(lane, kind(of)?).try_send(key, &bytes).map(drop).map_err(error)
    }

    /// `(lane, kind, sequence number, key, bytes)`, or `None` when the session is over.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.0.clone();
        future(py, async move { Ok(session.receive().await.map(|m| (m.lane, name(m.kind), m.seq, m.key, m.bytes))) })
    }

    /// Whether the peer has everything; waits until it has.
    fn delivered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.0.clone();
        future(py, async move { Ok(session.delivered().await) })
    }

    /// Ends the session. Whether the peer is known to have everything.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.0.clone();
        future(py, async move { Ok(session.close().await) })
    }

    /// `(why, text, unconfirmed)` of a session that is over.
    fn ending(&self) -> Option<(&'static str, String, usize)> {
        let ending = self.0.ending()?;
        let why = match ending.why {
            Why::Closed => "closed",
            Why::Left { .. } => "left",
            Why::Gone => "gone",
            Why::Lost(_) => "lost",
            Why::Silent(_) => "silent",
            Why::Stranger(_) => "stranger",
        };
        Some((why, ending.to_string(), ending.unconfirmed))
    }

    fn unconfirmed(&self) -> usize {
        self.0.unconfirmed()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, dict) = (self.0.stats(), PyDict::new(py));
        let counts = [
            ("sent", stats.sent),
            ("written", stats.written),
            ("copies", stats.copies),
            ("bytes", stats.bytes),
            ("bytes_of_copies", stats.bytes_again),
            ("conflated", stats.conflated),
            ("received", stats.received),
            ("copies_received", stats.copies_received),
        ];
        for (name, count) in counts {
            dict.set_item(name, count)?;
        }
        dict.set_item("saved", stats.saved.as_secs_f64())?;
        dict.set_item("round_trip", stats.smoothed.map(|time| time.as_secs_f64()))?;
        Ok(dict)
    }
}

/// Accepts sessions.
#[pyclass(frozen, module = "headstart._realtime")]
struct Listener(Arc<realtime::Listener>);

#[pymethods]
impl Listener {
    /// The next session, or `None` when the listener was stopped.
    fn accept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let listener = Arc::clone(&self.0);
        future(py, async move { Ok(listener.accept().await.map(Session)) })
    }

    /// `(host, port)`.
    fn address(&self) -> Option<(String, u16)> {
        self.0.address().map(|address| (address.ip().to_string(), address.port()))
    }

    fn stop(&self) {
        self.0.stop();
    }
}

/// Connects to a listener, and waits until it has shown that it is one.
#[pyfunction]
fn connect<'py>(
    py: Python<'py>,
    peer: String,
    technique: Option<String>,
    interval: Option<f64>,
    patience: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut config =
        Config { interval: interval.map(|time| seconds("interval", time)).transpose()?, ..Config::default() };
    config.technique = technique.unwrap_or(config.technique);
    config.patience = patience.map(|time| seconds("patience", time)).transpose()?.unwrap_or(config.patience);
    future(py, async move {
        let within = config.patience;
        let connected = async {
            let session = realtime::Session::connect(peer, config).await?;
            session.greeted().await?;
            Ok(session)
        };
        let connected = tokio::time::timeout(within, connected).await.unwrap_or(Err(realtime::SessionError::TimedOut));
        connected.map(Session).map_err(error)
    })
}

/// Listens on TCP.
#[pyfunction]
fn listen<'py>(py: Python<'py>, address: String, patience: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
    let patience = patience.map(|time| seconds("patience", time)).transpose()?;
    future(py, async move {
        let listener = realtime::Listener::bind(address.as_str()).await;
        // The kernel's text alone does not say which address.
        let listener = listener.map_err(|e| io::Error::new(e.kind(), format!("listening on {address}: {e}")))?;
        patience.into_iter().for_each(|patience| listener.set_patience(patience));
        Ok(Listener(Arc::new(listener)))
    })
}

#[pymodule]
fn _realtime(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(bridge::shut, module)?,))?;
    module.add("SessionError", py.get_type::<SessionError>())?;
    module.add("SessionOver", py.get_type::<SessionOver>())?;
    module.add("LaneFull", py.get_type::<LaneFull>())?;
    module.add("MAX_MESSAGE", realtime::MAX_MESSAGE)?;
    module.add_class::<Session>()?;
    module.add_class::<Listener>()?;
    module.add_function(wrap_pyfunction!(connect, module)?)?;
    module.add_function(wrap_pyfunction!(listen, module)?)
}
