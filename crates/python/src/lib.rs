//! `flowloom._native`: the lab, for Python. Arguments and results are plain; see ARCHITECTURE.md, "The native module".

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flowloom_core::Time;
use flowloom_lab::measured::{Judged, Measured};
use flowloom_lab::metrics::{Column, Row, columns};
use flowloom_lab::observe::{Samples, Sink, Table};
use flowloom_lab::spec::{Scenario, schema as scenario_schema};
use flowloom_lab::{Outcome, Progress, catalogue as lab_catalogue, zero_loss};
use numpy::PyArray1;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

create_exception!(flowloom, ScenarioError, PyException, "The input is bad; the message is the paragraph to print.");
create_exception!(flowloom, RunError, PyException, "The run failed; the message is the paragraph to print.");

/// Python is called back about this often.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// A run checks every few milliseconds whether it must stop.
const STOP_PERIOD: Duration = Duration::from_millis(500);
/// As much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

fn load(text: &str, path: &str, overrides: &[String]) -> PyResult<Scenario> {
    Scenario::load(text, path, overrides).map_err(|error| ScenarioError::new_err(error.to_string()))
}

/// The resolved scenario, which is TOML with every default filled in, and what in it does not suit the network. Everything but the run itself is
/// checked.
#[pyfunction]
#[pyo3(signature = (text, path, overrides, progress=None))]
fn check(
    py: Python<'_>,
    text: &str,
    path: &str,
    overrides: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let scenario = load(text, path, &overrides)?;
    let resolved = scenario.spec.to_toml();
    let planned =
        supervised(py, progress.as_ref(), move |_| flowloom_lab::Plan::new(&scenario.validate()?).map(|plan| plan.misfits()))?;
    let misfits = planned.map_err(|error| ScenarioError::new_err(error.to_string()))?;
    Ok((resolved, misfits))
}

/// The parameters of the scenario's transport that follow from the network and the workload, with the values that a run has, as a JSON object.
#[pyfunction]
fn fitted_parameters(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = load(text, path, &overrides)?;
    let fitted = supervised(py, None, move |_| {
        let spec = scenario.validate()?;
        Ok(flowloom_lab::Plan::new(&spec)?.fitted(&spec))
    })?;
    let fitted = fitted.map_err(|error: flowloom_lab::ScenarioError| ScenarioError::new_err(error.to_string()))?;
    Ok(serde_json::to_string(&fitted).expect("parameters are written as JSON"))
}

/// The most bytes of data that queue at a port of each kind of hop, and what credits of random sizes add, as JSON; `null` if no credits schedule the
/// data of the scenario's transport, or if there is no bound.
#[pyfunction]
fn data_queue_bounds(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = load(text, path, &overrides)?;
    let bounds = supervised(py, None, move |_| {
        let plan = flowloom_lab::Plan::new(&scenario.validate()?)?;
        Ok(zero_loss::data_queues(&plan).map(|hops| (hops, zero_loss::deviation(&plan))))
    })?;
    let bounds = bounds.map_err(|error: flowloom_lab::ScenarioError| ScenarioError::new_err(error.to_string()))?;
    let json = bounds.map(|(hops, deviation)| {
        let hops: BTreeMap<String, u64> = hops.into_iter().map(|(hop, bytes)| (hop, bytes.get())).collect();
        serde_json::json!({ "by_hop": hops, "per_root_of_packets": deviation })
    });
    Ok(serde_json::to_string(&json).expect("numbers and names are written as JSON"))
}

/// What the scenario means for real switches and hosts, as JSON: see `flowloom_lab::deployment`.
#[pyfunction]
fn deployment(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = load(text, path, &overrides)?;
    let described = supervised(py, None, move |_| {
        let spec = scenario.validate()?;
        flowloom_lab::deployment::describe(&flowloom_lab::Plan::new(&spec)?, &spec)
    })?;
    let described = described.map_err(|error: flowloom_lab::ScenarioError| ScenarioError::new_err(error.to_string()))?;
    Ok(described.to_string())
}

/// Simulates a scenario. `sink` is called with the name of a table and its next rows, as a dictionary of columns: an array of numbers, or a tuple of an array of
/// indices and a list of the names that they refer to; and with the name of a file of the trace and its next bytes. What it raises ends the run.
#[pyfunction]
#[pyo3(signature = (text, path, overrides, progress=None, sink=None))]
fn run<'py>(
    py: Python<'py>,
    text: &str,
    path: &str,
    overrides: Vec<String>,
    progress: Option<Py<PyAny>>,
    sink: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let scenario = load(text, path, &overrides)?;
    let work = move |progress: &mut Progress<'_>| {
        let mut calls = Calls { sink, raised: None };
        (flowloom_lab::run_into(&scenario, progress, &mut calls), calls.raised)
    };
    match supervised(py, progress.as_ref(), work)? {
        (_, Some(raised)) => Err(raised),
        (Ok(Outcome { rows, summary, scenario }), None) => {
            results(py, &rows, serde_json::to_string(&summary).expect("a summary is written as JSON"), scenario)
        }
        (Err(error @ flowloom_lab::RunError::Scenario(_)), None) => Err(ScenarioError::new_err(error.to_string())),
        (Err(error), None) => Err(RunError::new_err(error.to_string())),
    }
}

/// The flows of a scenario, for real hosts, as JSON: see `flowloom_lab::measured`.
#[pyfunction]
fn planned_flows(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = load(text, path, &overrides)?;
    let described = supervised(py, None, move |_| flowloom_lab::measured::describe_flows(&scenario))?;
    let described = described.map_err(|error| ScenarioError::new_err(error.to_string()))?;
    Ok(described.to_string())
}

/// The results of a scenario's flows on real hosts, as `run` returns them. `measured` is a `flowloom_lab::measured::Measured` as JSON.
#[pyfunction]
#[pyo3(signature = (text, path, overrides, measured, progress=None))]
fn judge<'py>(
    py: Python<'py>,
    text: &str,
    path: &str,
    overrides: Vec<String>,
    measured: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let scenario = load(text, path, &overrides)?;
    let measured: Measured = serde_json::from_str(measured).map_err(|error| RunError::new_err(error.to_string()))?;
    let work = move |progress: &mut Progress<'_>| flowloom_lab::measured::judge(&scenario, &measured, progress);
    match supervised(py, progress.as_ref(), work)? {
        Ok(Judged { rows, summary, scenario }) => results(py, &rows, summary.to_string(), scenario),
        Err(error @ flowloom_lab::RunError::Scenario(_)) => Err(ScenarioError::new_err(error.to_string())),
        Err(error) => Err(RunError::new_err(error.to_string())),
    }
}

/// Gives what a run records to Python.
struct Calls {
    sink: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Calls {
    fn call(&mut self, name: &str, part: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyAny>>) -> Result<(), String> {
        let Some(sink) = &self.sink else { return Ok(()) };
        let call = |py: Python<'_>| sink.call1(py, (name, part(py)?)).map(drop);
        Python::attach(call).map_err(|raised| {
            let message = raised.to_string();
            self.raised = Some(raised);
            message
        })
    }
}

impl Sink for Calls {
    fn take(&mut self, part: Table) -> Result<(), String> {
        self.call(part.name, |py| Ok(series(py, part)?.into_any()))
    }
    fn write(&mut self, file: &'static str, bytes: Vec<u8>) -> Result<(), String> {
        self.call(file, |py| Ok(PyBytes::new(py, &bytes).into_any()))
    }
}

fn series(py: Python<'_>, part: Table) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for (name, samples) in part.columns {
        match samples {
            Samples::Numbers(values) => columns.set_item(name, PyArray1::from_vec(py, values))?,
            Samples::Counts(values) => columns.set_item(name, PyArray1::from_vec(py, values))?,
            Samples::Ids(values) => columns.set_item(name, PyArray1::from_vec(py, values))?,
            Samples::Names(indices, names) => columns.set_item(name, (PyArray1::from_vec(py, indices), names.to_vec()))?,
        }
    }
    Ok(columns)
}

/// Does work on a thread of its own, while this one calls Python back and looks for Ctrl-C.
///
/// The lab tells its progress while it simulates, but not while it sets up a network or works out the bound, which may take minutes.
/// If Python raises, the work is told to stop; work that does not stop is abandoned, and ends with the process.
fn supervised<R: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut Progress<'_>) -> R + Send + 'static,
) -> PyResult<R> {
    let told = Arc::new(Mutex::new((0.0, Time::ZERO, 0)));
    let stop = Arc::new(AtomicBool::new(false));
    let (send, mut receive) = mpsc::sync_channel(1);
    let (tell, stopped) = (Arc::clone(&told), Arc::clone(&stop));
    let thread = thread::Builder::new().name("simulation".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let done = work(&mut |done, now, packet_hops| {
            *tell.lock().expect("nobody panics with it") = (done, now, packet_hops);
            !stopped.load(Ordering::Relaxed)
        });
        let _ = send.send(done); // unless it was left behind
    })?;
    let mut wait = move |period| {
        let receive = &mut receive;
        py.detach(move || receive.recv_timeout(period))
    };
    loop {
        match wait(PROGRESS_PERIOD) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => unreachable!("a thread that returns has sent"),
                Err(panic) => resume_unwind(panic),
            },
            Err(RecvTimeoutError::Timeout) => {
                let (done, now, packet_hops) = *told.lock().expect("nobody panics with it");
                if let Err(raised) = report(py, progress, done, now, packet_hops) {
                    stop.store(true, Ordering::Relaxed);
                    let _ = wait(STOP_PERIOD);
                    return Err(raised);
                }
            }
        }
    }
}

/// Calls back, and looks for Ctrl-C.
fn report(py: Python<'_>, progress: Option<&Py<PyAny>>, done: f64, now: Time, packet_hops: u64) -> PyResult<()> {
    py.check_signals()?;
    if let Some(progress) = progress {
        progress.call1(py, (done, now.as_secs_f64(), packet_hops))?;
    }
    Ok(())
}

fn results<'py>(py: Python<'py>, rows: &[Row], summary: String, scenario: String) -> PyResult<Bound<'py, PyDict>> {
    let flows = PyDict::new(py);
    for (name, column) in columns(rows) {
        match column {
            Column::U16(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::U32(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::U64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::I64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::F64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::Word(values) => flows.set_item(name, values)?,
        }
    }
    let all = PyDict::new(py);
    all.set_item("flows", flows)?;
    all.set_item("summary", summary)?;
    all.set_item("scenario", scenario)?;
    Ok(all)
}

/// Everything that can be named in a scenario, as JSON.
#[pyfunction]
fn catalogue() -> String {
    lab_catalogue().to_string()
}

/// The JSON Schema of a scenario.
#[pyfunction]
fn schema() -> String {
    scenario_schema().to_string()
}

/// The simulator, written in Rust.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("RunError", module.py().get_type::<RunError>())?;
    module.add("DEBUG_ASSERTIONS", cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(data_queue_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(deployment, module)?)?;
    module.add_function(wrap_pyfunction!(fitted_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(judge, module)?)?;
    module.add_function(wrap_pyfunction!(planned_flows, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)
}
