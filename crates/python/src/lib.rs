//! `flowloom._native`: the lab, for Python. Arguments and results are plain; see ARCHITECTURE.md, "The native module".

use std::time::{Duration, Instant};

use flowloom_core::Time;
use flowloom_lab::metrics::{Column, columns};
use flowloom_lab::spec::{Scenario, schema as scenario_schema};
use flowloom_lab::{Outcome, catalogue as lab_catalogue};
use numpy::PyArray1;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

create_exception!(flowloom, ScenarioError, PyException, "The input is bad; the message is the paragraph to print.");
create_exception!(flowloom, RunError, PyException, "The run failed; the message is the paragraph to print.");

/// Python is called back about this often.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

fn load(text: &str, path: &str, overrides: &[String]) -> PyResult<Scenario> {
    Scenario::load(text, path, overrides).map_err(|error| ScenarioError::new_err(error.to_string()))
}

/// The resolved scenario: TOML with every default filled in. Everything but the run itself is tried.
#[pyfunction]
fn check(py: Python<'_>, text: &str, path: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = load(text, path, &overrides)?;
    py.detach(|| flowloom_lab::Plan::new(&scenario.validate()?)).map_err(|error| ScenarioError::new_err(error.to_string()))?;
    Ok(scenario.spec.to_toml())
}

/// Simulates a scenario.
#[pyfunction]
#[pyo3(signature = (text, path, overrides, progress=None))]
fn run<'py>(
    py: Python<'py>,
    text: &str,
    path: &str,
    overrides: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let scenario = load(text, path, &overrides)?;
    let mut raised = None;
    let outcome = py.detach(|| {
        let mut due = Instant::now() + PROGRESS_PERIOD;
        flowloom_lab::run(&scenario, &mut |done, now, packet_hops| {
            if Instant::now() < due {
                return true;
            }
            due = Instant::now() + PROGRESS_PERIOD;
            raised = report(progress.as_ref(), done, now, packet_hops).err();
            raised.is_none()
        })
    });
    match (outcome, raised) {
        (_, Some(error)) => Err(error),
        (Ok(outcome), None) => results(py, outcome),
        (Err(flowloom_lab::RunError::Scenario(error)), None) => Err(ScenarioError::new_err(error.to_string())),
        (Err(flowloom_lab::RunError::Failed(message)), None) => Err(RunError::new_err(message)),
        (Err(flowloom_lab::RunError::Stopped), None) => Err(RunError::new_err("the run was stopped")),
    }
}

/// Calls back, and looks for Ctrl-C.
fn report(progress: Option<&Py<PyAny>>, done: f64, now: Time, packet_hops: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(py, (done, now.as_secs_f64(), packet_hops))?;
        }
        Ok(())
    })
}

fn results(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyDict>> {
    let flows = PyDict::new(py);
    for (name, column) in columns(&outcome.rows) {
        match column {
            Column::U16(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::U32(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::U64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::I64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
            Column::F64(values) => flows.set_item(name, PyArray1::from_vec(py, values))?,
        }
    }
    let series = PyDict::new(py);
    for one in outcome.series {
        let columns = PyDict::new(py);
        for (name, values) in one.columns {
            columns.set_item(name, PyArray1::from_vec(py, values))?;
        }
        series.set_item(one.name, columns)?;
    }
    let all = PyDict::new(py);
    all.set_item("flows", flows)?;
    all.set_item("summary", serde_json::to_string(&outcome.summary).expect("a summary is written as JSON"))?;
    all.set_item("scenario", outcome.scenario)?;
    all.set_item("series", series)?;
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
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)
}
