//! `flowloom._native`: the lab, for Python. Arguments and results are plain; see ARCHITECTURE.md, "The native module".

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flowloom_core::{Network, Time};
use flowloom_lab::fitting;
use flowloom_lab::measured::{self, Judged, Measured};
use flowloom_lab::metrics::{Column, Row, columns};
use flowloom_lab::observe::{Samples, Sink, Table};
use flowloom_lab::spec::{Scenario, schema as scenario_schema};
use flowloom_lab::{Execution, Fitted, Outcome, Plan, Progress, Setup, catalogue as lab_catalogue, zero_loss};
use numpy::PyArray1;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
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

fn bad_input(error: flowloom_lab::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// The scenario as TOML with every default filled in. It is read, and its rules are checked; nothing is planned.
#[pyfunction]
fn resolve(text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = Scenario::load(text, path, &overrides).map_err(bad_input)?;
    scenario.validate().map_err(bad_input)?;
    Ok(scenario.spec.to_toml())
}

/// Why transports cannot run the scenario: by name, those that cannot.
#[pyfunction]
fn refusals(
    py: Python<'_>,
    text: &str,
    path: &str,
    overrides: Vec<String>,
    transports: Vec<String>,
) -> PyResult<BTreeMap<String, String>> {
    let with = |name: &String| {
        let overrides = [&overrides[..], &[format!("transport.name={name}")]].concat();
        Scenario::load(text, path, &overrides)
    };
    let scenarios: Vec<_> = transports.iter().map(with).collect();
    let refused = supervised(py, None, move |_| flowloom_lab::refusals(&scenarios))?.map_err(bad_input)?;
    let named = transports.into_iter().zip(refused);
    Ok(named.filter_map(|(name, error)| Some((name, error?.to_string()))).collect())
}

/// The memory of ports of variants of a scenario, each a list of overrides, that do not give it: by variant, the bytes and what they are for. `None` for a variant that
/// gives it, or that is wrong.
#[pyfunction]
fn memories(py: Python<'_>, text: &str, path: &str, variants: Vec<Vec<String>>) -> PyResult<Vec<Option<(u64, String)>>> {
    let scenarios: Vec<_> = variants.iter().map(|overrides| Scenario::load(text, path, overrides).ok()).collect();
    let memory_of = |scenario: &Option<Scenario>| {
        let (bytes, why) = fitting::memory_of(scenario.as_ref()?)?;
        Some((bytes.get(), why))
    };
    supervised(py, None, move |_| scenarios.iter().map(memory_of).collect())
}

/// A scenario that is planned, and can be run once.
#[pyclass(frozen, module = "flowloom._native", name = "Plan")]
struct PyPlan {
    scenario: Arc<Scenario>,
    /// What the plan says besides its flows. It stays when a run takes the plan.
    setup: Setup,
    plan: Mutex<Option<Plan>>,
}

/// Plans a scenario: its network, paths and flows are made, and everything but the run itself is checked.
#[pyfunction]
#[pyo3(signature = (text, path, overrides, progress=None))]
fn plan(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>, progress: Option<Py<PyAny>>) -> PyResult<PyPlan> {
    let scenario = Arc::new(Scenario::load(text, path, &overrides).map_err(bad_input)?);
    let shared = Arc::clone(&scenario);
    let planned = supervised(py, progress.as_ref(), move |_| Plan::new(&shared.validate()?))?;
    Ok(PyPlan::of(scenario, planned.map_err(bad_input)?))
}

impl PyPlan {
    fn of(scenario: Arc<Scenario>, plan: Plan) -> PyPlan {
        PyPlan { scenario, setup: plan.setup.clone(), plan: Mutex::new(Some(plan)) }
    }
}

const WAS_RUN: &str = "this plan was run before, and a run takes its flows; make another plan";

#[pymethods]
impl PyPlan {
    /// The scenario as TOML with a value for every key.
    #[getter]
    fn resolved(&self) -> String {
        self.setup.resolved(&self.scenario.spec).to_toml()
    }

    /// What in the scenario does not suit the network or the flows.
    #[getter]
    fn misfits(&self) -> Vec<String> {
        self.setup.misfits.clone()
    }

    /// What the run has where the scenario leaves it open, as a JSON object: by key, the value and why.
    fn fitted(&self) -> String {
        let fitted = self
            .setup
            .fitted
            .iter()
            .map(|Fitted { key, value, why }| (key.clone(), serde_json::json!({ "value": value, "why": why })));
        serde_json::Value::Object(fitted.collect()).to_string()
    }

    /// The most bytes of data that queue at a port of each kind of hop, and what credits of random sizes add, as JSON; `null` if no credits
    /// schedule the data of the scenario's transport, or if there is no bound.
    fn data_queue_bounds(&self, py: Python<'_>) -> PyResult<String> {
        let setup = self.setup.clone();
        let bounds =
            supervised(py, None, move |_| zero_loss::data_queues(&setup).map(|hops| (hops, zero_loss::deviation(&setup))))?;
        let json = bounds.map(|(hops, deviation)| {
            let hops: BTreeMap<String, u64> = hops.into_iter().map(|(hop, bytes)| (hop, bytes.get())).collect();
            serde_json::json!({ "by_hop": hops, "per_root_of_packets": deviation })
        });
        Ok(serde_json::to_string(&json).expect("numbers and names are written as JSON"))
    }

    /// What the scenario means for real switches and hosts, as JSON: see `flowloom_lab::deployment`.
    fn deployment(&self, py: Python<'_>, for_datagrams: bool) -> PyResult<String> {
        let (setup, scenario) = (self.setup.clone(), Arc::clone(&self.scenario));
        let described = supervised(py, None, move |_| flowloom_lab::deployment::describe(&setup, &scenario, for_datagrams))?;
        Ok(described.map_err(bad_input)?.to_string())
    }

    /// The same plan with another time limit. It shares the network and the paths.
    fn until(&self, limit_ps: u64) -> PyResult<PyPlan> {
        let plan = self.plan.lock().expect("nobody panics with it").clone();
        let mut plan = plan.ok_or_else(|| PyValueError::new_err(WAS_RUN))?;
        plan.setup.time_limit = Time::from_ps(limit_ps).min(Time::LAST);
        Ok(PyPlan::of(Arc::clone(&self.scenario), plan))
    }

    /// The plan's flows, for real hosts, as JSON: see `flowloom_lab::measured`.
    fn flows(&self) -> PyResult<String> {
        let plan = self.plan.lock().expect("nobody panics with it");
        let plan = plan.as_ref().ok_or_else(|| PyValueError::new_err(WAS_RUN))?;
        Ok(measured::describe_flows(plan, &self.scenario).map_err(bad_input)?.to_string())
    }

    /// The results of the plan's flows on real hosts, as `run` returns them. The plan is used up. `measured` is a `flowloom_lab::measured::Measured`
    /// as JSON.
    #[pyo3(signature = (measured, progress=None))]
    fn judge<'py>(&self, py: Python<'py>, measured: &str, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let measured: Measured = serde_json::from_str(measured).map_err(|error| RunError::new_err(error.to_string()))?;
        let plan = self.plan.lock().expect("nobody panics with it").take();
        let plan = plan.ok_or_else(|| PyValueError::new_err(WAS_RUN))?;
        match supervised(py, progress.as_ref(), move |progress| measured::judge(plan, &measured, progress))? {
            Ok(Judged { rows, summary, network }) => results(py, &rows, &network, summary.to_string()),
            Err(error) => Err(RunError::new_err(error.to_string())),
        }
    }

    /// Simulates the plan, which is used up. `sink` is called with the name of a table and its next rows, as a dictionary of columns: an array
    /// of numbers, or a tuple of an array of indices and a list of the names that they refer to; and with the name of a file of the trace
    /// and its next bytes. What it raises ends the run. The run is spread over `threads` threads at most, which changes nothing in its results.
    #[pyo3(signature = (progress=None, sink=None, threads=1))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
        sink: Option<Py<PyAny>>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let plan = self.plan.lock().expect("nobody panics with it").take();
        let plan = plan.ok_or_else(|| PyValueError::new_err(WAS_RUN))?;
        let work = move |progress: &mut Progress<'_>| {
            let mut calls = Calls { sink, raised: None };
            let execution = Execution { threads, progress, sink: &mut calls };
            (flowloom_lab::run_plan(plan, execution), calls.raised)
        };
        match supervised(py, progress.as_ref(), work)? {
            (_, Some(raised)) => Err(raised),
            (Ok(Outcome { rows, summary, network }), None) => {
                results(py, &rows, &network, serde_json::to_string(&summary).expect("a summary is written as JSON"))
            }
            (Err(error), None) => Err(RunError::new_err(error.to_string())),
        }
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

fn results<'py>(py: Python<'py>, rows: &[Row], network: &Network, summary: String) -> PyResult<Bound<'py, PyDict>> {
    let flows = PyDict::new(py);
    for (name, column) in columns(rows, network) {
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
    module.add_class::<PyPlan>()?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(refusals, module)?)?;
    module.add_function(wrap_pyfunction!(memories, module)?)?;
    module.add_function(wrap_pyfunction!(resolve, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)
}
