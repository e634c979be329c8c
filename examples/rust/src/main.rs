//! Run a classification student from Rust: student ARTIFACT LIBRARY < texts
//!
//! LIBRARY is ONNX Runtime's shared library. Prints a label and its probability for each line. In a larger
//! program, the crates `ort` and `tokenizers` do what onnx.rs and wordpiece.rs do here.

mod onnx;
mod wordpiece;

use serde_json::Value;
use std::error::Error;
use std::io::BufRead;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (artifact, library) = match &arguments[..] {
        [_, artifact, library] => (artifact, library),
        _ => return Err("usage: student ARTIFACT LIBRARY < texts".into()),
    };
    let folder = Path::new(artifact);
    let read = |name: &str| -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_slice(&std::fs::read(folder.join(name))?)?)
    };
    let described = read("artifact.json")?;
    let tokenizer = wordpiece::Tokenizer::new(&read("tokenizer.json")?)?;

    // What a prediction needs: file, labels, the names of inputs and outputs, length, temperature.
    let default = described["default"].as_str().ok_or("no default")?;
    let file = described["models"][default]["file"].as_str().ok_or("no file")?;
    let labels = described["labels"].as_array().ok_or("not a classification student")?;
    let inputs: Vec<&str> =
        described["inputs"].as_array().ok_or("no inputs")?.iter().filter_map(Value::as_str).collect();
    let output = described["outputs"][0].as_str().ok_or("no outputs")?;
    let max_length = described["max_length"].as_u64().ok_or("no max_length")? as usize;
    let temperature = described["temperature"].as_f64().unwrap_or(1.0);
    let session = onnx::Session::open(library, folder.join(file))?;

    for line in std::io::stdin().lock().lines() {
        let ids = tokenizer.encode(&line?, max_length);
        let length = ids.len();
        let mut tensors: Vec<(&str, Vec<i64>)> = Vec::new();
        for name in &inputs {
            let values = match *name {
                "input_ids" => ids.clone(),
                "attention_mask" => vec![1; length],
                "token_type_ids" => vec![0; length],
                other => return Err(format!("input {other} is unknown").into()),
            };
            tensors.push((name, values));
        }
        let logits = session.run(&mut tensors, output)?;
        let probabilities = softmax(&logits, temperature);
        let best = (0..probabilities.len()).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
        let best = best.ok_or("no logits")?;
        println!("{}\t{:.6}", labels[best].as_str().unwrap_or(""), probabilities[best]);
    }
    Ok(())
}

fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
    let powers: Vec<f64> = logits.iter().map(|one| ((*one as f64 - largest) / temperature).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|one| one / sum).collect()
}
