//! Work of Rust as futures of asyncio.
//!
//! Ours instead of a crate's, for the end of a program: a thread that asks for the interpreter while that ends is a fatal error, and asyncio
//! cancels what is under way just before. Here every such thread passes a gate, which is shut before the interpreter ends.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{OnceLock, PoisonError, RwLock};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// Whether threads may still ask for the interpreter; held while they have it.
static GATE: RwLock<bool> = RwLock::new(true);

fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let new = Builder::new_multi_thread().worker_threads(2).thread_name("headstart-python").enable_all().build();
    let new = new.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    // Another thread may have been faster; then this one ends, unused.
    Ok(RUNTIME.get_or_init(|| new))
}

/// Ends work whose future was cancelled.
#[pyclass(frozen)]
struct Abort(AbortHandle);

#[pymethods]
impl Abort {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.abort();
    }
}

/// Settles a future, in the thread of its loop.
#[pyfunction]
fn settle(future: &Bound<'_, PyAny>, method: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if !future.call_method0("done")?.extract::<bool>()? {
        future.call_method1(method, (value,))?;
    }
    Ok(())
}

/// A future of the running loop for what comes of `work`.
pub fn future<'py, T>(
    py: Python<'py>,
    work: impl Future<Output = PyResult<T>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'any> IntoPyObject<'any> + Send + 'static,
{
    let running = py.import("asyncio")?.call_method0("get_running_loop")?;
    let future = running.call_method0("create_future")?;
    let (running, waiting) = (running.unbind(), future.clone().unbind());
    let task = runtime()?.spawn(async move {
        let outcome = work.await;
        let gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
        if *gate {
            // An error means that the loop was closed meanwhile: nothing waits for the result.
            let _ = Python::attach(|py| hand_over(py, &running, &waiting, outcome));
        }
    });
    future.call_method1("add_done_callback", (Abort(task.abort_handle()),))?;
    Ok(future)
}

fn hand_over<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    running: &Py<PyAny>,
    future: &Py<PyAny>,
    outcome: PyResult<T>,
) -> PyResult<()> {
    let outcome = outcome.and_then(|value| value.into_bound_py_any(py));
    let (method, value) = match outcome {
        Ok(value) => ("set_result", value),
        Err(error) => ("set_exception", error.into_value(py).into_bound(py).into_any()),
    };
    let settle = wrap_pyfunction!(settle, py)?;
    running.call_method1(py, "call_soon_threadsafe", (settle, future, method, value))?;
    Ok(())
}

/// Shuts the gate: called before the interpreter ends, and waits for threads that have it.
#[pyfunction]
pub fn shut(py: Python<'_>) {
    py.detach(|| *GATE.write().unwrap_or_else(PoisonError::into_inner) = false);
}
